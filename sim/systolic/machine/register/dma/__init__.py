"""The DMA queues of the register engine."""
