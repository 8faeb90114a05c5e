"""The event model of a network: an event for each grant, or for a whole train of packets."""
