"""The activation and the pooling engine of the register engine."""
