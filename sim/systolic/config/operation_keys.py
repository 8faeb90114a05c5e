"""The keys of run files that follow from the table of operations: names, operands, attributes.

`OperationName` is the key `op`; `OperandKeys` and `AttributeKeys` are what [workload] and
[[workload.ops]] have beside their own keys. All of these keys may be left out: which of them an
operation needs is checked when its kind is known (`graph_tables`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from systolic.hw.spec import Spec
from systolic.workload import OPERATIONS
from systolic.workload.operations.row import AnyRow

SHAPE = "shape"
"""The key of the only operand of an operation."""


def operand_keys(row: AnyRow) -> tuple[str, ...]:
    """Return the keys of an operation's operands where [workload] is that operation alone."""
    names = tuple(operand.name for operand in row.operands)
    return (SHAPE,) if len(names) == 1 else names


def attribute_keys(row: AnyRow) -> tuple[str, ...]:
    """Return the keys of an operation's attributes."""
    return tuple(field.name for field in dataclasses.fields(row.attributes))


def _operands() -> dict[str, Any]:
    about = {SHAPE: 'XLA shape of the source, such as "f32[128,64]"'}
    for row in OPERATIONS.values():
        if len(row.operands) > 1:
            about |= {operand.name: operand.about for operand in row.operands}
    return {key: (str | None, Field(default=None, description=text)) for key, text in about.items()}


def _attributes() -> dict[str, Any]:
    """Return a field for each attribute; operations that share a name share its type."""
    types: dict[str, Any] = {}
    about: dict[str, list[str]] = {}
    for kind, row in OPERATIONS.items():
        hints = get_type_hints(row.attributes, include_extras=True)
        for key in attribute_keys(row):
            info = FieldInfo.from_annotation(hints[key])
            if types.setdefault(key, info.annotation) != info.annotation:
                raise TypeError(f"attribute {key} of {kind}: another operation's has another type")
            about.setdefault(key, []).append(f"{kind}: {info.description}")
    return {
        key: (Annotated[hint | None, Field(description="; ".join(about[key]))], None)
        for key, hint in types.items()
    }


if TYPE_CHECKING:
    OperationName: TypeAlias = str

    class OperandKeys(Spec):
        """A key for each operand."""

    class AttributeKeys(Spec):
        """A key for each attribute."""

else:
    OperationName = Literal[tuple(OPERATIONS)]
    OperandKeys = create_model("OperandKeys", __base__=Spec, **_operands())
    AttributeKeys = create_model("AttributeKeys", __base__=Spec, **_attributes())

WORKLOAD_KEYS = frozenset({*_operands(), *_attributes()})
"""The keys of [workload] of which each operation has some."""
