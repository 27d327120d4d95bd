"""What verbs have found, before anybody shows it: typed values that hold every result their views need."""
