"""The command line: parse, call, print. Nothing else of the package prints."""
