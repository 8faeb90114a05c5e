"""The engines of a chip in the register engine."""
