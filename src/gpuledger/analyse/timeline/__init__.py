"""One GPU over time."""
