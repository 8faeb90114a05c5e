"""The compiler: from operations on tensors to a Program. It never sees the machine."""

from systolic.compiler.arithmetic import ProgramArithmetic
from systolic.compiler.compiled import CompiledGraph
from systolic.compiler.pipeline import compile_graph
from systolic.workload.options import Options, ProductOptions

__all__ = ["CompiledGraph", "Options", "ProductOptions", "ProgramArithmetic", "compile_graph"]
