"""A tensor's shape in a run file: XLA's text alone, or a table that says what the text cannot.

Not here: what the text means (`systolic.layout`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core.core_schema import CoreSchema

from systolic.errors import WorkloadError
from systolic.hw.spec import Spec
from systolic.workload import Tensor, parse_shape
from systolic.workload.tensor import Home

Widths = Annotated[tuple[int, ...], Field(strict=False)]


class ShapeTable(Spec):
    """A tensor: its shape, the memory that it lives in, and its place there."""

    shape: str = Field(description='XLA shape with its layout, such as "bf16[64,128]{1,0}"')
    home: Literal["state_buffer", "dram"] | None = Field(
        default=None, description="memory (default: the workload's)"
    )
    partition: Annotated[int, Field(ge=0)] = Field(
        default=0, description="partition of the state buffer at which its tiles begin"
    )
    byte: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="byte of the partitions at which its tiles begin (default: as compiled)",
    )
    padded_dimensions: Widths | None = Field(
        default=None, description="width to which each dimension is padded before it is tiled"
    )
    padding_value: float | None = Field(
        default=None, description="number that the padding of padded_dimensions holds (default 0)"
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        return {"shape": given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema: text, or a table."""
        table = handler(core)
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(table)]}

    def tensor(self, home: Home) -> Tensor:
        """Return the tensor, at `home` unless the table has its own.

        Raises:
            LayoutError: the text is no shape, or the widths do not fit it.
            WorkloadError: there is a padding value, but no widths.

        """
        shape = parse_shape(self.shape)
        if self.padded_dimensions is not None:
            shape = shape.with_padding(self.padded_dimensions, self.padding_value or 0)
        elif self.padding_value is not None:
            raise WorkloadError("padding_value needs padded_dimensions, which say what it fills")
        return Tensor(shape, self.home or home, self.partition, self.byte)
