"""The compiler: from an operation on tensors to a Program. It never sees the machine."""

from sim.compiler.compile import Compiled, compile_transpose
from sim.compiler.options import Options

__all__ = ["Compiled", "Options", "compile_transpose"]
