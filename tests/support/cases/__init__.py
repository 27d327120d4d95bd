"""What Markdown cases can say, and what reads them."""
