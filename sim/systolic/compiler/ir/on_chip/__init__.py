"""Where the elements of a tensor at home on the chip lie."""
