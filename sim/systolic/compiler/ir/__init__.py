"""The values that pass from pass to pass: nodes, tasks, drafts and their dependencies."""
