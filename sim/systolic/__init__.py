"""systolic: a cycle-accurate, value-exact simulator of a systolic-array accelerator."""

__version__ = "0.1.0"
