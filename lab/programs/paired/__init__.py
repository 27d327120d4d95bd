"""Programs in several variants, from bad to fixed, for `lab.programs.pairs`: a module per kind of program."""
