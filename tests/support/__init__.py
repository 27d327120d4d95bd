"""What tests share: traces written on a line, exports, pages, the command as users run it."""
