"""Programs to profile, and in `parts` what they are made of.

They import nothing of the package but `capture.window`, and need torch, an extra.
"""
