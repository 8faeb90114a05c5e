"""Where the elements of a tensor lie in a buffer of the accelerator.

Used by `systolic layout --buffer` and from Python. The compiler does not use it: it has conventions
of its own for where its tiles lie (`systolic.compiler.place`).
"""
