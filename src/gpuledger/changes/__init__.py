"""What a change would buy: changes by name in, the step as the replay has it then out. See docs/concepts/replay.md."""
