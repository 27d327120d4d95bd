"""The compiled part: integer columns out of SQLite's table b-trees (btree.c). Where it is missing, SQLite does it."""
