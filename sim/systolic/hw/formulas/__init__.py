"""Closed formulas of the timing model: the second oracle, never imported by the machine."""
