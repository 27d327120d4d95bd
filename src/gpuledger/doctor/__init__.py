"""Whether profiles can be recorded here: a machine in, one check after another out, each with its fix."""
