"""Nsight Systems exports: SQLite, parquetdir, arrowdir and, where nsys is installed, .nsys-rep."""
