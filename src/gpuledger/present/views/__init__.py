"""Tables that answer one question about a device each: figures from the analyses, as sheets for any renderer."""
