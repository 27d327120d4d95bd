"""What an agent can ask, by family. None of it knows the protocol; `registry` lists them all."""
