"""What a change would do: a trace's dependency graph, replayed with an edit. See docs/concepts/replay.md."""
