"""Nsight Compute: .ncu-rep and what ncu --csv prints."""
