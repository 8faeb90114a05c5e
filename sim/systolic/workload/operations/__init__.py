"""The meaning of operations: one table, and a file for each operation."""
