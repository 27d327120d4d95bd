"""A job of many ranks: what one rank contributes, and who waits for whom."""
