"""Profiles for programs that ask in small steps, such as language models: tools with small answers, over MCP.

`profiles` says which files may be opened and keeps a few open, `answers` keeps what is said small and clean, and
`server` is the only module that knows the protocol.
"""
