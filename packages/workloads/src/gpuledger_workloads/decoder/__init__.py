"""A Llama-like decoder: how large it is, the model, and checks of what it says."""
