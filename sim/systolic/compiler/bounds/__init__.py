"""Bounds: the times that no schedule can beat."""
