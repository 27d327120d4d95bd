"""The verbs, one file each: parse, call, write."""
