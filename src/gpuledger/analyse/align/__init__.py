"""Does a mock of one operation run what the operation runs inside the model, at the same speed? One file per part."""
