"""From a config, a graph or a program to a result."""
