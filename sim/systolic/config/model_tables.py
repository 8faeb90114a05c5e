"""A model in place of the tensors and operations of a [workload]: `model = "net.hlo"`.

The tables that a model gives are tables of a run file, so that whatever can be done with a run file
can be done with a model: overrides, parts, sweeps, data for its inputs. Its constants stay in its
file, which is read as an archive of arrays by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from systolic.arrays import Array
from systolic.config.blame import Blame
from systolic.config.explain import shown
from systolic.config.override import setter_of
from systolic.errors import ConfigError, SystolicError, shortened
from systolic.workload.importers.given import ModelGiven
from systolic.workload.importers.graph import Imported
from systolic.workload.importers.models import constant_name, read_model
from systolic.workload.operation import attributes_given


def with_model(
    tables: dict[str, Any], folder: Path, blame: Blame, arrays: Mapping[str, Array]
) -> dict[str, Any]:
    """Return a run file's tables with the operations of the model that [workload] names, if any.

    arrays: inputs that a Python caller has, on which shapes may depend.

    Keys that stand beside `model` stay: data, home, layers, and [workload.tensors.NAME] for inputs.

    Raises:
        ConfigError: the model cannot be read, or tensors are named that it does not have.

    """
    workload = tables.get("workload")
    if not isinstance(workload, dict) or not isinstance(workload.get("model"), str):
        return tables
    given = {key: value for key, value in workload.items() if key not in ("model", "shapes")}
    path = folder / workload["model"]
    entries = given.pop("tensors", {})
    entries = entries if isinstance(entries, dict) else {}
    said = ModelGiven(
        _sizes(workload.get("shapes", {}), blame), {**_files(entries, folder, blame), **arrays}
    )
    with _naming(path, blame):
        imported = read_model(path, said)
    made = model_workload(imported, str(path.resolve()), _again(imported, said).text())
    inputs = made["tensors"]
    for name, entry in entries.items():
        place = _input_name(imported, name)
        if place in imported.known:
            continue
        if place not in inputs:
            known = ", ".join(imported.names[:20])
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
            raise ConfigError(str(error), error.setting) from None
        raise blame.line("workload", "model", str(error), error.setting) from None


def _input_name(imported: Imported, name: str) -> str:
    """Return an input by its name, or by its number in the order of the file."""
    if name not in imported.names and name.isdecimal() and int(name) < len(imported.names):
        return imported.names[int(name)]
    return name


def _again(imported: Imported, said: ModelGiven) -> ModelGiven:
    """Return what makes the model as it is now: all sizes, if some are open, and constants."""
    shapes = zip(imported.inputs, imported.input_shapes, strict=True)
    dims = {name: shape.dims for name, shape in shapes} if imported.is_open else {}
    return ModelGiven(
        dims, {n: v for n, v in said.values.items() if _input_name(imported, n) in imported.known}
    )


def _sizes(table: Any, blame: Blame) -> dict[str, tuple[int, ...]]:
    """Return [workload.shapes]; ConfigError names the key of what is no size."""
    found: dict[str, tuple[int, ...]] = {}
    for name, given in table.items() if isinstance(table, dict) else ():
        sizes = given if isinstance(given, list) else [given]
        if not sizes or not all(type(each) is int and each > 0 for each in sizes):
            needed = f"needs a size of at least 1, or a list of them, found {shown(given)}"
            raise blame.line("workload", f"shapes.{shortened(name)}", needed)
        found[name] = tuple(sizes)
    return found


def _files(entries: dict[str, Any], folder: Path, blame: Blame) -> dict[str, Path]:
    """Return the .npy files of inputs: a reader takes those on which shapes depend."""
    found: dict[str, Path] = {}
    for name, entry in entries.items():
        data = entry.get("data") if isinstance(entry, dict) else None
        if isinstance(data, str) and data.endswith(".npy"):
            setter = setter_of(("workload", "tensors", name, "data"), blame.overrides)
            within = folder if setter is None or setter.folder is None else setter.folder
            found[name] = (within / data).resolve()
    return found


def model_workload(imported: Imported, constants: str, given: str = "") -> dict[str, Any]:
    """Return a model as the table [workload]. constants: the file that holds their elements.

    given: what the user says of the model, if constants follow from it (`ModelGiven.text`).
    """
    graph = imported.graph
    tensors: dict[str, Any] = {}
    for name in graph.inputs:
        tensors[name] = {"shape": str(graph.shape(name))}
        if name in imported.constants:
            tensors[name] |= {"data": constants, "array": constant_name(name, given)}
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
    made = {"home": "dram", "data": "random", "tensors": tensors, "ops": ops}
    return made | ({"int64": list(imported.int64)} if imported.int64 else {})
