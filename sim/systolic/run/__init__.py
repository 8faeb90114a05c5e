"""From a run file, a graph or a program to a result: `systolic.run(work, chip, inputs)`.

This module can be called as a function. `systolic.run(...)`, `from systolic import run` and
`from systolic.run import run` all lead to `systolic.run.execute.run`, whose docstring describes the
arguments. The package also holds the stages of a run and the tools that are built on runs. Stages:
`tensors` and `program` (arrays into memory and out of it), `verdict`, `provenance`, `folder`.
Tools: `sweep`, `pins`, `snapshot`, `export`, `again`.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import inspect

    from systolic.run.execute import run as run
    from systolic.run.result import Result as Result

__all__ = ["Result", "run"]

# The module of each public name; it is imported when that name is first asked for.
_HOMES = {"run": "systolic.run.execute", "Result": "systolic.run.result"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


class _CallableModule(ModuleType):
    """This module's class, so that `systolic.run`, a package, can be called as the function."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Run work on a chip; see `systolic.run.execute.run`."""
        from systolic.run.execute import run

        return run(*arguments, **settings)

    @property
    def __signature__(self) -> "inspect.Signature":
        """The signature of the function, which `help`, editors and notebooks show."""
        import inspect

        from systolic.run.execute import run

        return inspect.signature(run)


sys.modules[__name__].__class__ = _CallableModule
