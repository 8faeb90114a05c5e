"""systolic: a cycle-accurate, value-exact simulator of a systolic-array accelerator.

`systolic.run(work, chip, inputs)` runs a run file, a graph or a program and returns a `Result`.
`systolic.from_jax(function, *arguments, chip=...)` runs a function of JAX, and
`systolic.from_torch(module, *arguments, chip=...)` a module of PyTorch.
`systolic.plot(result, view, file)` draws a view of a result.
Importing this package loads nothing else; each name below is loaded when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from systolic.run.execute import run as run
    from systolic.run.from_jax import from_jax as from_jax
    from systolic.run.from_torch import from_torch as from_torch
    from systolic.run.plotted import plot as plot
    from systolic.run.result import Result as Result

__all__ = ["Result", "__version__", "from_jax", "from_torch", "plot", "run"]
__version__ = "0.2.0"

_RUN = "systolic.run"


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "run":
        return importlib.import_module(_RUN)  # a package that can be called: see its docstring
    if name == "from_jax":
        return importlib.import_module("systolic.run.from_jax").from_jax
    if name == "from_torch":
        return importlib.import_module("systolic.run.from_torch").from_torch
    if name == "plot":
        return importlib.import_module("systolic.run.plotted").plot
    if name == "Result":
        return importlib.import_module(_RUN).Result
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
