"""Records of a run: words, labels, instruction times, stalls, the grid's history."""
