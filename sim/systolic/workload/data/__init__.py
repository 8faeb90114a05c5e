"""Where the elements of tensors come from, and the files they are read from."""
