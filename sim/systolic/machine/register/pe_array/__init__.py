"""The PE array of the register engine."""
