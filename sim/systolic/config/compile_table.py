"""[compile]: the compiler's options as a table of run files, made from the class `Options`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import Field, create_model

from systolic.hw.spec import Spec
from systolic.workload.options import Options, ProductOptions


def _keys(options: type) -> dict[str, Any]:
    """Return type and default of each option as fields for pydantic."""
    hints = get_type_hints(options, include_extras=True)
    return {field.name: (hints[field.name], field.default) for field in dataclasses.fields(options)}


if TYPE_CHECKING:

    class ProductTable(Spec):
        """A key for each option of a product."""

    class CompileTable(Spec):
        """A key for each option."""

        operations: dict[str, ProductTable] = Field(default_factory=dict)

else:
    ProductTable = create_model(
        "ProductTable",
        __base__=Spec,
        __doc__="[compile.operations.NAME]: choices for one product.",
        __module__=__name__,
        **_keys(ProductOptions),
    )
    _hint = get_type_hints(Options, include_extras=True)["operations"]
    CompileTable = create_model(
        "CompileTable",
        __base__=Spec,
        __doc__="[compile]: choices the compiler leaves to the user.",
        __module__=__name__,
        **_keys(Options)
        | {"operations": (Annotated[dict[str, ProductTable], *_hint.__metadata__], {})},
    )


def options_of(table: CompileTable) -> Options:
    """Return the options that a table holds."""
    own = {name: ProductOptions(**each.model_dump()) for name, each in table.operations.items()}
    return Options(**{**table.model_dump(), "operations": own})
