"""Broadcasting and element-wise operations by XLA's rules.

They are used from Python only, as in `notebooks/02_layouts.ipynb`: no command and no operation of a
graph calls it.
"""
