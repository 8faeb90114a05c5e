"""Data in and out of memory in a layout."""
