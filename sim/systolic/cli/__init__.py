"""The command line, the only place that prints: `main` is the program; then a file per command."""
