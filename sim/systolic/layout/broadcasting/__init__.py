"""Broadcasting and element-wise operations by XLA's rules.

The operation `binary` of graphs obeys the rules of `broadcast`. `elementwise` is used from Python
only, as in `notebooks/02_layouts.ipynb`.
"""
