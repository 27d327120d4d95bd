"""Programs to profile. They import nothing of the package but `capture.window`, and need torch, an extra."""
