"""Design-space exploration: the points of a file's sweeps, run on one machine or on a cluster.

`space` resolves points to keys and work, `search` finds points by their results, `rows` runs a
point, `store` keeps rows in a folder, `local` and `cluster` are the schedulers, `explore` puts them
together, `query` asks DuckDB. Nothing is printed.
"""
