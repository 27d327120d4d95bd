"""Tools that make profiles: finding them, starting them. Hands over paths, never objects."""
