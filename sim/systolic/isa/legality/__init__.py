"""The static rules that a program must keep on a chip: accesses, array, DMA, engines."""
