"""What a chip file says of an engine: what it does, where, and how fast."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from systolic.errors import shortened
from systolic.hw.datatypes import DATA_TYPES
from systolic.hw.functions import require_known
from systolic.hw.spec.base import DISPATCH, Count, Cycles, DispatchKind, Side, Spec
from systolic.hw.units import (
    BUFFERS,
    CAPABILITIES,
    PATENT_CAPABILITIES,
    BufferName,
    Capability,
)

Functions = Annotated[tuple[str, ...], Field(strict=False)]


class Rate(Spec):
    """How fast an engine executes some of its instructions: all that fit every key given here.

    Of an instruction, the operands that are read element by element and the target count.
    """

    does: tuple[Capability, ...] = Field(
        default=(), strict=False, description="these instructions (default: all of the engine's)"
    )
    functions: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="what the instruction calculates: its function, its operation, or its two such "
        'as "subtract then multiply" (default: anything)',
    )
    value: int | float | None = Field(
        default=None, description="the number that a memset writes (default: any instruction)"
    )
    types: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="operands and target are of these types (default: any)",
    )
    operands: tuple[BufferName, ...] | None = Field(
        default=None,
        strict=False,
        description="the buffer of each operand, in any order (default: any number, anywhere)",
    )
    target: BufferName | None = Field(
        default=None, description="the buffer of the target (default: any)"
    )
    stride_bytes: Cycles | None = Field(
        default=None,
        description="most bytes from an element to the next, in the innermost pair of more than "
        "one element (default: any)",
    )
    elements: Side = Field(description="elements per lane that the engine takes together")
    cycles: Count = Field(default=1, description="cycles it takes for them")
    fixed_cycles: Cycles | None = Field(
        default=None, description="instead of the engine's fixed_cycles (default: those)"
    )
    min_interval_cycles: Cycles | None = Field(
        default=None, description="instead of the engine's min_interval_cycles (default: those)"
    )
    cycles_per_result: Cycles | None = Field(
        default=None,
        description="cycles more before the first read, for each element of a lane of the target "
        "(default: 0)",
    )

    @field_validator("functions")
    @classmethod
    def _known_functions(cls, functions: tuple[str, ...]) -> tuple[str, ...]:
        return require_known(functions)

    @field_validator("types")
    @classmethod
    def _known_types(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        for name in types:
            if name not in DATA_TYPES:
                known = ", ".join(DATA_TYPES)
                raise ValueError(f'unknown data type "{shortened(name)}" (known: {known})')
        return types


class Gathers(Spec):
    """What an element of a `local_gather` costs, by the formula that was published for it.

    Of e elements for each index, of `size` bytes each, one takes t e / (o + t e) * min(w / size, e)
    cycles: o = index_cycles, t = element_cycles, w = word_bytes.
    """

    index_cycles: Count = Field(description="o of the formula")
    element_cycles: Count = Field(description="t of the formula")
    word_bytes: Count = Field(default=4, description="w of the formula")


class Engine(Spec):
    """An engine: one lane per partition, which reads elements and writes them some cycles later."""

    does: tuple[Capability, ...] = Field(
        default=(),
        strict=False,
        validate_default=True,
        description="instructions it executes, by the mnemonics of the text form",
    )
    functions: dict[Capability, Functions] = Field(
        default={},
        description="of an instruction it does not do in full: all that it calculates with it "
        "(default: anything)",
    )
    tables: tuple[Functions, ...] = Field(
        default=(),
        strict=False,
        description="functions that the engine looks up in tables, a list for each table; the "
        "engine holds one table at a time",
    )
    table_cycles: Cycles = Field(
        default=0, description="cycles in which it loads the table of an instruction's function"
    )
    reads: tuple[BufferName, ...] = Field(
        default=BUFFERS, strict=False, description="buffers its operands may lie in"
    )
    writes: tuple[BufferName, ...] = Field(
        default=BUFFERS, strict=False, description="buffers its targets may lie in"
    )
    result_operands: Count | None = Field(
        default=None,
        description="most operands, read element by element, that lie in the result buffer "
        "(default: any number)",
    )
    latency_cycles: Count = Field(default=1, description="from reading an element to writing it")
    elements_per_cycle: Side = Field(default=1, description="elements per lane and cycle (rate)")
    min_interval_cycles: Cycles = Field(
        default=0, description="least distance between the starts of two instructions"
    )
    fixed_cycles: Cycles = Field(
        default=0, description="cycles an instruction holds its lanes before its first read"
    )
    independent_lanes: bool = Field(
        default=False, description="instructions on disjoint lanes overlap (patent, para 43-44)"
    )
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")
    rates: tuple[Rate, ...] = Field(
        default=(),
        strict=False,
        description="tables of other rates: the first that fits an instruction holds, without one "
        "elements_per_cycle",
    )

    def functions_with(self, instruction: str) -> tuple[str, ...] | None:
        """Return all that it calculates with an instruction; None if that is anything."""
        return {str(word): words for word, words in self.functions.items()}.get(instruction)

    @field_validator("does")
    @classmethod
    def _does_something(cls, does: tuple[Capability, ...]) -> tuple[Capability, ...]:
        if not does:
            raise ValueError(f"needs at least one of {', '.join(CAPABILITIES)}")
        return _each_once(does)

    gathers: Gathers | None = Field(
        default=None,
        description="what each element of a local_gather costs (default: what its rate says)",
    )

    @field_validator("functions")
    @classmethod
    def _known_functions(
        cls, functions: dict[Capability, Functions]
    ) -> dict[Capability, Functions]:
        for instruction, words in functions.items():
            if not words:
                raise ValueError(f"{instruction}: needs at least one function")
            require_known(_each_once(words))
        return functions

    @field_validator("tables")
    @classmethod
    def _known_tables(cls, tables: tuple[Functions, ...]) -> tuple[Functions, ...]:
        for words in tables:
            if not words:
                raise ValueError("a table needs at least one function")
            require_known(_each_once(words))
        return tables

    @field_validator("reads")
    @classmethod
    def _reads_once(cls, reads: tuple[BufferName, ...]) -> tuple[BufferName, ...]:
        return _each_once(reads)

    @field_validator("writes")
    @classmethod
    def _writes_somewhere(cls, writes: tuple[BufferName, ...]) -> tuple[BufferName, ...]:
        if not writes:
            raise ValueError(f"needs at least one of {', '.join(BUFFERS)}")
        return _each_once(writes)

    @model_validator(mode="after")
    def _functions_done(self) -> Engine:
        for instruction in self.functions:
            if instruction not in self.does:
                raise ValueError(
                    f'functions: the engine does not do "{instruction}" '
                    f"(it does: {', '.join(self.does)})"
                )
        return self

    @model_validator(mode="after")
    def _gathers_done(self) -> Engine:
        if self.gathers is not None and "local_gather" not in self.does:
            raise ValueError(
                f'gathers: the engine does not do "local_gather" (it does: {", ".join(self.does)})'
            )
        return self

    @model_validator(mode="after")
    def _rates_possible(self) -> Engine:
        for number, rate in enumerate(self.rates, 1):
            for key, found, known in (
                ("does", rate.does, self.does),
                ("operands", rate.operands or (), self.reads),
                ("target", (rate.target,) if rate.target else (), self.writes),
            ):
                for word in found:
                    if word not in known:
                        raise ValueError(
                            f'rates: entry {number}: {key}: the engine has no "{word}" '
                            f"(it has: {', '.join(known)})"
                        )
        return self


def _each_once(words: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the words; raise ValueError if one of them stands there twice."""
    for word in words:
        if words.count(word) > 1:
            raise ValueError(f'names "{word}" more than once')
    return words


class ActivationEngine(Engine):
    """The patent's activation engine: it executes all that the two engines do but `pool`."""

    does: tuple[Capability, ...] = Field(
        default=tuple(word for word in PATENT_CAPABILITIES if word != "pool"),
        strict=False,
        description="instructions it executes, by the mnemonics of the text form",
    )


class PoolingEngine(Engine):
    """The patent's pooling engine: it executes all that the two engines do but `activate`."""

    does: tuple[Capability, ...] = Field(
        default=tuple(word for word in PATENT_CAPABILITIES if word != "activate"),
        strict=False,
        description="instructions it executes, by the mnemonics of the text form",
    )
