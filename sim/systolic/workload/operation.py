"""An operation of a graph: its kind, its tensors and its attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, TypeVar

from systolic.errors import WorkloadError, shortened
from systolic.layout import Shape
from systolic.workload.operations.aliases import unknown_operation
from systolic.workload.operations.row import NO_ATTRIBUTES, AnyRow, Attributes
from systolic.workload.operations.table import OPERATIONS
from systolic.workload.operations.whole_rows import WHOLE_ROWS

A = TypeVar("A", bound=Attributes)


@dataclass(frozen=True, slots=True)
class Operation:
    """One node: `kind` is a row of OPERATIONS; inputs and output are names of tensors.

    A part of a composite may be a row of WHOLE_ROWS too.

    attributes: an object of the class that the row names. `make_graph` fills in those that were
    left out and follow from the shapes, such as the permutation of a matrix. part_of: the name of
    the composite that the operation is a part of ("": none).
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: str
    attributes: Attributes = NO_ATTRIBUTES
    part_of: str = ""

    @property
    def row(self) -> AnyRow:
        """Return the operation's row of the table; WorkloadError if there is none."""
        if self.part_of and self.kind in WHOLE_ROWS:
            return WHOLE_ROWS[self.kind]
        if self.kind not in OPERATIONS:
            raise WorkloadError(
                f'operation "{shortened(self.name)}": {unknown_operation(self.kind)}'
            )
        return OPERATIONS[self.kind]

    @property
    def layer(self) -> str:
        """Return the name under which its work is counted: its composite's, if it has one."""
        return self.part_of or self.name

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Name the operation in any WorkloadError raised inside."""
        try:
            yield
        except WorkloadError as error:
            raise WorkloadError(f'operation "{shortened(self.name)}": {error}') from None

    def attributes_as(self, kind: type[A]) -> A:
        """Return the attributes, which must be of that class."""
        assert isinstance(self.attributes, kind)
        return self.attributes


def make_attributes(kind: str, row: AnyRow, given: Mapping[str, Any]) -> Attributes:
    """Return the attributes of an operation of that kind; lists become tuples.

    Raises:
        WorkloadError: an attribute is unknown to the operation, or one that it needs is missing.

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


def attributes_given(op: Operation) -> dict[str, Any]:
    """Return the attributes of an operation that are not the defaults, as a run file gives them."""
    found = {}
    for each in fields(op.attributes):
        value = getattr(op.attributes, each.name)
        if value != each.default:
            found[each.name] = list(value) if isinstance(value, tuple) else value
    return found


def default_shape(row: AnyRow, shapes: Sequence[Shape], attributes: Attributes) -> Shape | None:
    """Return the shape of the result that follows from the inputs' shapes; None if none does.

    Raises:
        WorkloadError: the attributes do not fit the shapes.

    """
    if row.default_out is None:
        return None
    return row.default_out(shapes, row.settle(shapes, attributes))


def required_attributes(row: AnyRow) -> list[str]:
    """Return the attributes that must be given: those without a default."""
    return [field.name for field in fields(row.attributes) if field.default is MISSING]


def settled(op: Operation, shapes: Sequence[Shape]) -> Operation:
    """Return the operation with all attributes that follow from the shapes of its inputs."""
    attributes = op.attributes
    if type(attributes) is Attributes:  # none were given
        attributes = make_attributes(op.kind, op.row, {})
    return replace(op, attributes=op.row.settle(shapes, attributes))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | range) else value
