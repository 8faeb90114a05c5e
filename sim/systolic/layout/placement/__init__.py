"""Where the elements of a tensor lie in a buffer of the accelerator.

`systolic layout --buffer` and Python callers use it. The compiler does not: it has conventions of
its own for its tiles (`systolic.compiler.place`).
"""
