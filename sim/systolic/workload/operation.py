"""An operation of a graph: which one it is, on which tensors, with which attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, TypeVar

from systolic.errors import WorkloadError, perhaps, shortened
from systolic.layout import Shape
from systolic.workload.operations.row import NO_ATTRIBUTES, AnyRow, Attributes
from systolic.workload.operations.table import OPERATIONS

A = TypeVar("A", bound=Attributes)


@dataclass(frozen=True, slots=True)
class Operation:
    """One node: `kind` is a row of OPERATIONS; inputs and output are names of tensors.

    attributes: of the class that the row names. `make_graph` puts in what was left out and follows
    from the shapes, such as the permutation of a matrix.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: str
    attributes: Attributes = NO_ATTRIBUTES

    @property
    def row(self) -> AnyRow:
        """Return what the table says of the operation; WorkloadError if it does not know it."""
        if self.kind not in OPERATIONS:
            raise WorkloadError(
                f'operation "{shortened(self.name)}": unknown operation "{shortened(self.kind)}" '
                f"(known: {', '.join(OPERATIONS)}){perhaps(self.kind, OPERATIONS)}"
            )
        return OPERATIONS[self.kind]

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Name the operation in any WorkloadError raised inside."""
        try:
            yield
        except WorkloadError as error:
            raise WorkloadError(f'operation "{shortened(self.name)}": {error}') from None

    def attributes_as(self, kind: type[A]) -> A:
        """Return the attributes, which are of that class."""
        assert isinstance(self.attributes, kind)
        return self.attributes


def make_attributes(kind: str, row: AnyRow, given: Mapping[str, Any]) -> Attributes:
    """Return the attributes of an operation of that kind, lists as tuples.

    Raises:
        WorkloadError: names an attribute that the operation does not have, or lacks.

    """
    known = [field.name for field in fields(row.attributes)]
    for key in given:
        if key not in known:
            raise WorkloadError(f'{shortened(key)}: op = "{kind}" has no such key')
    for key in required_attributes(row):
        if key not in given:
            raise WorkloadError(f'{key}: is missing; op = "{kind}" needs it')
    made: Attributes = row.attributes(**{key: _frozen(value) for key, value in given.items()})
    return made


def required_attributes(row: AnyRow) -> list[str]:
    """Return the attributes that must be given: those without a default."""
    return [field.name for field in fields(row.attributes) if field.default is MISSING]


def settled(op: Operation, shapes: Sequence[Shape]) -> Operation:
    """Return the operation with the attributes that were left out and follow from its inputs."""
    attributes = op.attributes
    if type(attributes) is Attributes:  # none were given
        attributes = make_attributes(op.kind, op.row, {})
    return replace(op, attributes=op.row.settle(shapes, attributes))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | range) else value
