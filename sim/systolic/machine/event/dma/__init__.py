"""The DMA queues of the event engine."""
