"""Programs that captures and benchmarks are made of; in the repository only, in no wheel.

From the repository's root: `python -m lab.programs.zoo --list`. They need what `packages/workloads` needs.
"""
