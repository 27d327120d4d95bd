"""NVIDIA's summary tables, one function each, equal to what nsys stats prints."""
