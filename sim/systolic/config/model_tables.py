"""A model in place of the tensors and operations of a [workload]: `model = "net.hlo"`.

The tables that a model gives are those of a run file, so that whatever can be done with a run file
can be done with a model: overrides, parts, sweeps, data for its inputs. Its constants stay in its
file, which is read as an archive of arrays by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from systolic.config.blame import Blame
from systolic.errors import ConfigError, SystolicError
from systolic.workload.importers.graph import Imported
from systolic.workload.importers.models import read_model
from systolic.workload.operation import attributes_given


def with_model(tables: dict[str, Any], folder: Path, blame: Blame) -> dict[str, Any]:
    """Return a run file's tables with the operations of the model that [workload] names, if any.

    Keys that stand beside `model` stay: data, home, layers, and [workload.tensors.NAME] for inputs.

    Raises:
        ConfigError: the model cannot be read, or tensors are named that it does not have.

    """
    workload = tables.get("workload")
    if not isinstance(workload, dict) or not isinstance(workload.get("model"), str):
        return tables
    given = {key: value for key, value in workload.items() if key != "model"}
    path = folder / workload["model"]
    with _naming(path, blame):
        imported = read_model(path)
    made = model_workload(imported, str(path.resolve()))
    entries = given.pop("tensors", {})
    inputs = made["tensors"]
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        place = _input_name(imported, name)
        if place not in inputs:
            known = ", ".join(imported.inputs[:20])
            raise blame.line("workload", f"tensors.{name}", f"is no input of the model ({known})")
        inputs[place] = {**inputs[place], **entry}
    return {**tables, "workload": {**made, **given}}


@contextmanager
def _naming(model: Path, blame: Blame) -> Iterator[None]:
    """Name the key of a run file in errors about a model; a model that is run names itself."""
    try:
        yield
    except SystolicError as error:
        if model.name == blame.path.name:
            raise ConfigError(str(error)) from None
        raise blame.line("workload", "model", str(error)) from None


def _input_name(imported: Imported, name: str) -> str:
    """Return an input by its name, or by its number in the order of the file."""
    if name not in imported.inputs and name.isdecimal() and int(name) < len(imported.inputs):
        return imported.inputs[int(name)]
    return name


def model_workload(imported: Imported, constants: str) -> dict[str, Any]:
    """Return a model as the table [workload]. constants: the file that holds their elements."""
    graph = imported.graph
    tensors: dict[str, Any] = {}
    for name in graph.inputs:
        tensors[name] = {"shape": str(graph.shape(name))}
        if name in imported.constants:
            tensors[name] |= {"data": constants, "array": name}
    ops = [
        {
            "op": op.kind,
            "name": op.output,
            "inputs": list(op.inputs),
            "out": str(graph.shape(op.output)),
            **attributes_given(op),
        }
        for op in graph.operations
    ]
    return {"home": "dram", "data": "random", "tensors": tensors, "ops": ops}
