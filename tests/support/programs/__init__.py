"""Programs and machines that tests run."""
