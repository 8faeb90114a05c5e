"""Readers of models that other programs wrote, and the passes that all of them share."""
