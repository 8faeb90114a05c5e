"""Broadcasting and element-wise operations by XLA's rules."""
