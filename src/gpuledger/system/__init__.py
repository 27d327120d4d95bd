"""The machine we run on: processes, files, tools, GPUs. The only subprocess and the only atomic write are here."""
