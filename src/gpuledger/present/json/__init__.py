"""The documents that programs read: one type per object, from which the JSON and its published schema come."""
