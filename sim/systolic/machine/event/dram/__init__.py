"""DRAM with channels and banks in the event engine."""
