"""Profiles for programs that ask in small steps, such as language models: tools with small answers, over MCP.

`folders` says which files may be opened, `profiles` keeps a few open, `answers` keeps what is said small and clean,
`tools/` has the questions by family, and `server` is the only module that knows the protocol.
"""
