"""Where the elements of a tensor lie in a buffer of the accelerator.

`rule` says which physical dimensions give the partition, `placement` computes places, and
`conventions` has a function for each memory. Nothing else computes such places.
"""
