"""The compiled parts: columns out of SQLite's table b-trees (btree.c), passes over sorted columns (sweep.c), values out
of pickles (pickle_tree.c), rows out of reports of Nsight Systems (report_events.c).

All are optional. Where they are missing, SQLite, numpy and Python do their work, and give the same.
"""
