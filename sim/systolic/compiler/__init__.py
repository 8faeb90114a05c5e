"""The compiler: from operations on tensors to a Program. It never sees the machine."""

from systolic.compiler.compiled import CompiledGraph
from systolic.compiler.ir.on_chip.chip_tiles import k_tiles
from systolic.compiler.pipeline import compile_graph
from systolic.workload.options import Options, ProductOptions

__all__ = ["CompiledGraph", "Options", "ProductOptions", "compile_graph", "k_tiles"]
