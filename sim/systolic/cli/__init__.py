"""The command line, the only place that prints: `main` is the program; each command has a file."""
