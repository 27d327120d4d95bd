"""What tests read of pages, terminals and docs."""
