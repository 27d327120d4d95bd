"""The compiled passes over a dependency graph (replay.c). Where they are missing, plain Python gives the same."""
