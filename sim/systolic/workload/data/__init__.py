"""Where the elements of tensors come from: counted, random, or read from files."""
