"""Frozen specifications of every unit: exactly what a chip file says, one class per table.

A specification is plain data, validated on construction, and prints back as the table that made
it (`systolic.config.to_toml`). Cycle counts are in cycles of the unit's own clock. Nothing here
acts. Each unit has a file of its own; `chip` is the file of the whole.
"""

from __future__ import annotations

from systolic.hw.spec.base import Count, Cycles, DispatchKind, Side, Spec
from systolic.hw.spec.chip import Chip
from systolic.hw.spec.dma import Dma
from systolic.hw.spec.dram import ADDRESS_FIELDS, AddressField, Dram, DramOrganisation
from systolic.hw.spec.engine import ActivationEngine, Engine, Gathers, PoolingEngine, Rate
from systolic.hw.spec.fetch import Fetch
from systolic.hw.spec.interconnect import ChipWay, Interconnect
from systolic.hw.spec.multi_core import Controllers, CoreEntry, MultiCoreChip, Processor
from systolic.hw.spec.pe_array import PEArray
from systolic.hw.spec.provenance import Provenance
from systolic.hw.spec.result_buffer import ResultBuffer
from systolic.hw.spec.state_buffer import StateBuffer

__all__ = [
    "ADDRESS_FIELDS",
    "ActivationEngine",
    "AddressField",
    "Chip",
    "ChipWay",
    "Controllers",
    "CoreEntry",
    "Count",
    "Cycles",
    "DispatchKind",
    "Dma",
    "Dram",
    "DramOrganisation",
    "Engine",
    "Fetch",
    "Gathers",
    "Interconnect",
    "MultiCoreChip",
    "PEArray",
    "PoolingEngine",
    "Processor",
    "Provenance",
    "Rate",
    "ResultBuffer",
    "Side",
    "Spec",
    "StateBuffer",
]
