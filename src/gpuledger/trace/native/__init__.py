"""The compiled parts: columns out of SQLite's table b-trees (btree.c), passes over sorted columns (sweep.c).

Both are optional. Where they are missing, SQLite and numpy do their work, and give the same.
"""
