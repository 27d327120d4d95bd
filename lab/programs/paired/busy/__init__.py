"""Programs that keep a GPU busy and use it badly, with their fixes: models, decoders and single operators."""
