"""Memory ports of the register engine: who holds each, and until when."""
