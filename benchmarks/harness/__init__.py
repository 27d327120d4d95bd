"""What `benchmarks/run.py` is made of: inputs, peers, contests, measuring, answers, and the page."""
