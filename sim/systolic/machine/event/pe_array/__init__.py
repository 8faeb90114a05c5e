"""The PE array of the event engine."""
