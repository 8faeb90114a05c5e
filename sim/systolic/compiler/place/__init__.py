"""The third pass: which tile is where in the buffers, and when."""
