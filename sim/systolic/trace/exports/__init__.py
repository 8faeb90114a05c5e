"""What was observed in a run, in the formats of other programs: one file for each format."""
