"""Memory ports of the event engine: demands, streams and the arbiter."""
