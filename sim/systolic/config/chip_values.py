"""A chip as a list of values, each with its mark and its source.

Not here: what may stand in a chip file (`systolic.hw.spec`), or how the list is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from systolic.hw.spec import Chip, MultiCoreChip
from systolic.hw.spec.provenance import Provenance, is_list_of_tables

DEFAULT = "default"
"""The mark of a value that the chip file does not give."""
UNMARKED = ""
"""The mark of a value whose source the chip file does not give."""
APART = {"name", "description", "provenance"}


@dataclass(frozen=True, slots=True)
class ChipValue:
    """A value of a chip.

    key: with dots, as in an override without `chip.`. value: plain. mark: a mark of
    `systolic.hw.spec.provenance`, `DEFAULT` or `UNMARKED`. source: where the value comes from.
    """

    key: str
    value: Any
    mark: str
    source: str


def chip_values(chip: Chip | MultiCoreChip) -> list[ChipValue]:
    """Return every value of a chip that was read from a file, in the order of its tables."""
    written = dict(_leaves("", chip.model_dump(mode="json", exclude=APART, exclude_unset=True)))
    every = dict(_leaves("", chip.model_dump(mode="json", exclude=APART, exclude_none=True)))
    if isinstance(chip, Chip) and chip.has_plain_priority:
        del written["port_priority"]  # the chip fills it in while it is read
    provenance = chip.provenance or Provenance()
    return [_value(key, value, key in written, provenance) for key, value in every.items()]


def _value(key: str, value: Any, is_written: bool, provenance: Provenance) -> ChipValue:
    found = provenance.source_of(key)
    if found is not None and (is_written or key in provenance.sources):
        return ChipValue(key, value, *found)
    return ChipValue(key, value, UNMARKED if is_written else DEFAULT, "")


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every value in nested tables with its dotted key; an entry of a list is one value."""
    if isinstance(value, dict):
        for word, each in value.items():
            yield from _leaves(f"{key}.{word}" if key else word, each)
    elif is_list_of_tables(value):
        for number, each in enumerate(value, 1):
            yield f"{key}.{number}", each
    else:
        yield key, value
