"""Moving data into memory in a layout, and out of it."""
