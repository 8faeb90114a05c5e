"""What a chip file says of its own figures: where each comes from, and which sources disagree.

Nothing here changes a run. A key is written with dots, `pe_array.rows`; the key of a table stands
for all values in it that have no entry of their own, and `engines.vector.rates.1` is the first
entry of a list of tables.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from systolic.errors import perhaps, shortened
from systolic.hw.spec.base import Spec

Mark = Literal["published", "fitted", "inferred", "chosen"]
MARKS: tuple[Mark, ...] = get_args(Mark)
"""published: the maker states it; fitted: chosen so that a published figure comes out; inferred:
follows from other figures; chosen: not known, and what was put in its place."""


class Provenance(Spec):
    """The sources of a chip file's values, and the contradictions between them."""

    references: dict[str, str] = Field(
        default={}, description="the full names of sources, by the short ones used below"
    )
    sources: dict[str, str] = Field(
        default={},
        description='by the key of a value or a table: "MARK: where it comes from", MARK one of '
        f"{', '.join(MARKS)}",
    )
    contradictions: dict[str, str] = Field(
        default={}, description="by key: what the sources say differently, and the choice made"
    )

    @field_validator("sources")
    @classmethod
    def _marked(cls, sources: dict[str, str]) -> dict[str, str]:
        for key, text in sources.items():
            mark, colon, reason = text.partition(":")
            if mark not in MARKS:
                raise ValueError(
                    f'{shortened(key)}: needs "MARK: text" with one of {", ".join(MARKS)}, '
                    f'found "{shortened(mark)}"{perhaps(mark, MARKS)}'
                )
            if not colon or not reason.strip():
                raise ValueError(f'{shortened(key)}: says nothing behind "{mark}"')
        return sources

    def source_of(self, key: str) -> tuple[str, str] | None:
        """Return mark and text of a value: of its own entry, or of the nearest table around it."""
        parts = key.split(".")
        for count in range(len(parts), 0, -1):
            if found := self.sources.get(".".join(parts[:count])):
                mark, _, text = found.partition(":")
                return mark, text.strip()
        return None


def check_keys(provenance: Provenance, tables: dict[str, Any]) -> None:
    """Raise ValueError if the provenance speaks of a key that the chip's tables do not have."""
    for part, keys in (
        ("sources", provenance.sources),
        ("contradictions", provenance.contradictions),
    ):
        for key in keys:
            if fault := _missing(key, tables):
                raise ValueError(f"provenance.{part}: {shortened(key)}: {fault}")


def _missing(key: str, tables: dict[str, Any]) -> str:
    """Return what is wrong with a dotted key; "" if the tables have it."""
    at: Any = tables
    for word in key.split("."):
        known = _keys_of(at)
        if word not in known:
            there = f"there are: {', '.join(known)}" if known else "a value has no keys"
            return f'no "{shortened(word)}" ({there}){perhaps(word, known)}'
        at = known[word]
    return ""


def _keys_of(value: Any) -> dict[str, Any]:
    """Return what lies in a table by key, or in a list of tables by number from 1."""
    if isinstance(value, dict):
        return value
    if is_list_of_tables(value):
        return {str(number): each for number, each in enumerate(value, 1)}
    return {}


def is_list_of_tables(value: Any) -> bool:
    """Return whether a value is a list of tables that is not empty."""
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)
