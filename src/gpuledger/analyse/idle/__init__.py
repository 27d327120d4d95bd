"""Idle time: its causes, launches, and what overlaps."""
