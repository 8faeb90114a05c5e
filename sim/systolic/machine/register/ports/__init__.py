"""Memory ports of the register engine: which client holds each, and until when."""
