"""Profiles of JAX and TensorFlow (XSpace, *.xplane.pb) -> Trace."""
