"""The activation and the pooling engine of the event engine."""
