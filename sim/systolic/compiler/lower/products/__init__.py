"""Products and convolutions: their operands, batches and images."""
