"""Programs to profile, each a module; in the folders what they are made of.

They import nothing of the package but `capture.window`, and need torch, an extra.
"""
