"""What only moves elements: permutations, reshapes, gathers, and tensors in tiles on the chip."""
