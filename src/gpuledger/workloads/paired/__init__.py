"""Programs in several variants, from bad to fixed, for `gpuledger.workloads.pairs`: a module per kind of program."""
