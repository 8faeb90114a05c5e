"""The engines of a chip in the event engine."""
