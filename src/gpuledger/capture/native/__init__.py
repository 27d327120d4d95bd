"""What is loaded into the program that is captured: a library that sees its window where no profiler runs."""
