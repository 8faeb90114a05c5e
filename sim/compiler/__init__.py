"""The compiler: from operations on tensors to a Program. It never sees the machine."""

from sim.compiler.graph import CompiledGraph, compile_graph
from sim.compiler.options import Options
from sim.compiler.tile import k_tiles

__all__ = ["CompiledGraph", "Options", "compile_graph", "k_tiles"]
