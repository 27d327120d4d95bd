"""The trace and the arithmetic on it. Imports nothing else of the package."""
