"""A graph in parts: each compiled by itself, from DRAM to DRAM, and joined into one program."""
