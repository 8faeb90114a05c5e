"""The summary of a run: its values, and the table a person reads."""
