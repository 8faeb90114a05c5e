"""Where the elements of a tensor lie in a buffer of the accelerator."""
