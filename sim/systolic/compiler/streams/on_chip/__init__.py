"""Streams between tensors at home in the state buffer: nothing is loaded, nothing stored."""
