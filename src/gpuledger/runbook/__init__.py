"""Runbooks: a YAML file in; benchmarks, captures and comparisons over a matrix of settings out."""
