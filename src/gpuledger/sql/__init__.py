"""Questions in SQL: DuckDB over a trace's own columns and over its books. `tables` lists what can be asked."""
