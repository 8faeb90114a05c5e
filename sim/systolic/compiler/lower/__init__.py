"""The first pass: operations become nodes on matrices."""
