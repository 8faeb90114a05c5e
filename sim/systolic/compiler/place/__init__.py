"""The third pass: the place of every tile in the buffers, and its time there."""
