"""Several cores of a chip in the event engine: what cores share, and what starts them."""
