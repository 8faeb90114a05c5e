"""What operations mean: one table, then a file per operation."""
