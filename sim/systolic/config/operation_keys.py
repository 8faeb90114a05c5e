"""The keys of run files that follow from the table of operations: names, operands, attributes.

`OperationName` is the type of the key `op`. `OperandKeys` and `AttributeKeys` are keys that
[workload] and [[workload.ops]] have beside their own. Every one of them may be left out here;
`graph_tables` checks which of them an operation needs.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from systolic.config.shape_table import ShapeTable
from systolic.hw.spec import Spec
from systolic.workload import OPERATIONS
from systolic.workload.operations.aliases import ALIASES, BY_ATTRIBUTE
from systolic.workload.operations.row import AnyRow

SHAPE = "shape"
"""The key of the operand of an operation that has only one."""


def operand_keys(row: AnyRow) -> tuple[str, ...]:
    """Return the keys of an operation's operands in a [workload] that is this one operation."""
    names = tuple(operand.name for operand in row.operands)
    return (SHAPE,) if len(names) == 1 else names


def attribute_keys(row: AnyRow) -> tuple[str, ...]:
    """Return the keys of an operation's attributes."""
    return tuple(field.name for field in dataclasses.fields(row.attributes))


def _operands() -> dict[str, Any]:
    about = {SHAPE: 'XLA shape of the source, such as "f32[128,64]"'}
    for row in OPERATIONS.values():
        if len(row.operands) > 1:
            for operand in row.operands:
                about[operand.name] = _both(about.get(operand.name), operand.about)
    return {
        key: (ShapeTable | None, Field(default=None, description=text))
        for key, text in about.items()
    }


def _both(first: str | None, second: str) -> str:
    """Return what is said of a key that several operations have."""
    return second if first is None else f"{first}; {second}"


def _attributes() -> dict[str, Any]:
    """Return a field for each attribute.

    Two operations may have an attribute of the same name; TypeError if its types differ.
    """
    types: dict[str, Any] = {}
    about: dict[str, list[str]] = {}
    for kind, row in OPERATIONS.items():
        hints = get_type_hints(row.attributes, include_extras=True)
        for key in attribute_keys(row):
            info = FieldInfo.from_annotation(hints[key])
            annotation = _with_aliases(key, info.annotation)
            hint = Annotated[(annotation, *info.metadata)] if info.metadata else annotation
            if types.setdefault(key, hint) != hint:
                raise TypeError(f"attribute {key} of {kind}: another operation's has another type")
            about.setdefault(key, []).append(f"{kind}: {info.description}")
    return {
        key: (Annotated[hint | None, Field(description="; ".join(about[key]))], None)
        for key, hint in types.items()
    }


def _with_aliases(key: str, annotation: Any) -> Any:
    """Return the type of an attribute; if its values have other names, it takes these too."""
    if key not in BY_ATTRIBUTE:
        return annotation
    return Literal[(*get_args(annotation), *BY_ATTRIBUTE[key])]


# Editors complete a name by the schema; a name that is unknown is answered with the nearest.
OperationName = Annotated[str, Field(json_schema_extra={"enum": [*OPERATIONS, *ALIASES]})]

if TYPE_CHECKING:

    class OperandKeys(Spec):
        """A key for each operand."""

    class AttributeKeys(Spec):
        """A key for each attribute."""

else:
    OperandKeys = create_model("OperandKeys", __base__=Spec, **_operands())
    AttributeKeys = create_model("AttributeKeys", __base__=Spec, **_attributes())

WORKLOAD_KEYS = frozenset({*OperandKeys.model_fields, *AttributeKeys.model_fields})
"""The keys of [workload] that belong to operations; each operation has some of them."""
