"""DRAM with channels and banks in the register engine."""
