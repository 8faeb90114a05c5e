"""[compile]: the compiler's options as a table of run files, made from the class `Options`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import create_model

from systolic.hw.spec import Spec
from systolic.workload.options import Options


def _keys() -> dict[str, Any]:
    """Return type and default of each option as fields for pydantic."""
    hints = get_type_hints(Options, include_extras=True)
    return {field.name: (hints[field.name], field.default) for field in dataclasses.fields(Options)}


if TYPE_CHECKING:

    class CompileTable(Spec):
        """A key for each option."""

else:
    CompileTable = create_model(
        "CompileTable",
        __base__=Spec,
        __doc__="[compile]: choices the compiler leaves to the user.",
        __module__=__name__,
        **_keys(),
    )


def options_of(table: CompileTable) -> Options:
    """Return the options that a table holds."""
    return Options(**table.model_dump())
