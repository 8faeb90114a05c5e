"""The tables of a run file, a frozen class for each; every key is validated on its own.

Not here: loading, the chip, and checks across tables (`load`); what an operation means
(`systolic.workload`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from systolic.config.compile_table import CompileTable
from systolic.config.operation_keys import AttributeKeys, OperandKeys, OperationName
from systolic.config.shape_table import ShapeTable
from systolic.engine_kind import EngineKind
from systolic.errors import perhaps, shortened
from systolic.hw.spec import Spec
from systolic.workload import OPERATIONS

Seed = Annotated[int, Field(ge=0, le=1 << 63)]
Deviation = Annotated[float, Field(gt=0, le=1e30)]


class TensorTable(ShapeTable):
    """[workload.tensors.NAME]: an input of a graph."""

    data: str | None = Field(default=None, description="elements (default: the workload's)")
    array: str | None = Field(
        default=None, description="its name in a file that holds arrays by name (default: its own)"
    )
    seed: Seed | None = Field(default=None, description='seed of data = "random"')
    deviation: Deviation | None = Field(
        default=None, description='standard deviation of the floats of data = "random"'
    )


class OperationTable(AttributeKeys):
    """[[workload.ops]]: one operation of a graph; its result bears its name."""

    op: OperationName = Field(description=f"operation: {', '.join(OPERATIONS)}")
    name: str | None = Field(default=None, description="name of the result (default: op + number)")
    inputs: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        description="tensors or results of other operations"
    )
    out: ShapeTable = Field(description="the result: its XLA shape with its layout, or a table")


class AccuracyTable(Spec):
    """[workload.accuracy]: which scores of a network are held against which labels."""

    labels: str = Field(
        description="the class of each image, a row each: a .npy or .csv file beside the run"
    )
    scores: str | None = Field(
        default=None, description="output [images, classes] (default: the only one of two)"
    )
    first: Annotated[int, Field(ge=0)] = Field(default=0, description="first image that counts")
    step: Annotated[int, Field(ge=1)] = Field(
        default=1, description="images from one that counts to the next"
    )


class WorkloadTable(OperandKeys, AttributeKeys):
    """[workload]: one operation and its tensors, or a graph (`tensors` and `ops`), and data."""

    op: OperationName | None = Field(default=None, description="operation")
    model: str | None = Field(
        default=None,
        description="a model beside the run, such as net.hlo, whose operations these are",
    )
    shapes: dict[str, int | list[int]] = Field(
        default={},
        description="of a model: the dimensions of an input by its name, or the size of a "
        "dimension that the model leaves open",
    )
    tensors: dict[str, TensorTable] = Field(default={}, description="inputs of a graph, by name")
    ops: tuple[OperationTable, ...] = Field(
        default=(), strict=False, description="operations of a graph"
    )
    outputs: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="results of a graph (default: those that no operation takes)"
    )
    int64: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="results, s32 on the chip, that files hold as int64"
    )
    layers: Annotated[tuple[int, int], Field(strict=False)] | None = Field(
        default=None,
        description="of a graph only these operations, from the first number to before the "
        "second; what earlier ones would have made is drawn as `data` says (default: all)",
    )
    images: Annotated[tuple[int, int], Field(strict=False)] | None = Field(
        default=None,
        description="of the batch that a network takes only these images, from the first number "
        "to before the second (default: all)",
    )
    out: ShapeTable | None = Field(
        default=None, description="the result, for its layout (default: row major)"
    )
    home: Literal["state_buffer", "dram"] = Field(
        default="state_buffer", description="memory in which source and result live"
    )
    data: str = Field(
        default="arange",
        description='"arange", "random", or a .npy, .csv, .npz or .safetensors file beside the run',
    )
    seed: Annotated[int, Field(ge=0, le=1 << 63)] | None = Field(
        default=None, description='seed of data = "random" (default 0)'
    )
    deviation: Deviation | None = Field(
        default=None, description='standard deviation of the floats of data = "random" (default 1)'
    )
    accuracy: AccuracyTable | None = Field(
        default=None, description="labels that a network's scores are held against"
    )


class SweepTable(Spec):
    """[[sweep]]: runs of the file with some of its values replaced; `method` says which runs."""

    name: str = Field(description="name of the sweep")
    description: str = Field(default="", description="what it shows")
    method: Literal["grid", "list", "random", "optuna"] = Field(
        default="grid",
        description='"grid": every combination, the last key fastest; "list": value by value, or '
        'the tables in points; "random": some combinations; "optuna": a search for the best',
    )
    points: int | list[dict[str, Any]] | None = Field(
        default=None,
        description='how many runs (random, optuna); of method "list" a table of keys and values '
        "for each run",
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = Field(
        default=0, description="seed of random and optuna"
    )
    objectives: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = Field(
        default=("cycles", "dram_bytes"),
        description="columns of the results that optuna makes small and pictures show",
    )
    program: Literal["each", "once"] = Field(
        default="each",
        description='"each": every run is compiled; "once": runs that differ only in latencies, '
        "bandwidths and clocks take the program compiled for the first values of these",
    )
    vary: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        min_length=1, description='dotted key of the run file, or of the chip as "chip.", to values'
    )
    zip: Annotated[
        tuple[Annotated[tuple[str, ...], Field(strict=False, min_length=2)], ...],
        Field(strict=False),
    ] = Field(default=(), description="groups of keys of vary that go together, value by value")

    @model_validator(mode="before")
    @classmethod
    def _listed_points_need_no_vary(cls, table: Any) -> Any:
        """Let the tables of a list say which keys vary, and which values they take."""
        if not isinstance(table, dict) or table.get("method") != "list" or "vary" in table:
            return table
        listed = table.get("points")
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            return table
        keys = dict.fromkeys(key for each in listed for key in each)
        vary = {key: [each[key] for each in listed if key in each] for key in keys}
        return {**table, "vary": vary} if vary else table

    @field_validator("points", mode="before")
    @classmethod
    def _number_or_tables(cls, points: Any) -> Any:
        if points is None or (type(points) is int and points >= 1):
            return points
        if isinstance(points, list) and points and all(isinstance(p, dict) for p in points):
            return points
        raise ValueError("needs an integer >= 1, or a list of tables with keys and values")

    @field_validator("zip")
    @classmethod
    def _keys_go_together(
        cls, groups: tuple[tuple[str, ...], ...], info: ValidationInfo
    ) -> tuple[tuple[str, ...], ...]:
        vary = info.data.get("vary")
        if vary is not None:  # None: the value of vary is wrong, which is reported
            _check_zip(groups, vary)
        return groups


def _check_zip(groups: tuple[tuple[str, ...], ...], vary: dict[str, list[Any]]) -> None:
    """Raise ValueError for a key that vary lacks, a key named twice, or lists of unequal length."""
    keys = [key for group in groups for key in group]
    for key in keys:
        if key not in vary:
            known = ", ".join(f'"{shortened(name)}"' for name in vary)
            text = f'"{shortened(key)}" is no key of vary (known: {known})'
            raise ValueError(f"{text}{perhaps(key, vary)}")
        if keys.count(key) > 1:
            raise ValueError(f'"{shortened(key)}" is named twice')
    for group in groups:
        counts = {len(vary[key]) for key in group}
        if len(counts) > 1:
            found = ", ".join(f"{shortened(key)} has {len(vary[key])}" for key in group)
            raise ValueError(f"keys that go together need equally many values, found: {found}")


class RunFile(Spec):
    """A whole run file."""

    name: str = Field(default="", description="name of the run (default: the file's)")
    description: str = Field(default="", description="what the run shows")
    chip: str = Field(description="chip file (path from this file), or the name of a shipped chip")
    workload: WorkloadTable = Field(description="what is calculated, from which data")
    compile: CompileTable = Field(
        default=CompileTable.model_construct(),  # the defaults need no validator
        description="how it is compiled",
    )
    engine: EngineKind = Field(default="event", description="engine that steps the machine")
    sweep: tuple[SweepTable, ...] = Field(
        default=(), strict=False, description="sweeps over values of this file or its chip"
    )
