"""Chips for tests: small, plain, everything overridable by table."""

from __future__ import annotations

from typing import Any

from systolic.hw.spec import Chip
from systolic.hw.units import CAPABILITIES, PATENT_ENGINES

TYPES = ("f32", "bf16", "f16", "f8e4m3fn", "f8e5m2", "s8", "u8")


def able_chip(rows: int, cols: int, **tables: dict[str, Any]) -> Chip:
    """Return an ideal chip both of whose engines do every instruction of an engine.

    Float32 passes through its array.
    """
    does = {"does": CAPABILITIES}
    able = {name: {**does, **tables.get(name, {})} for name in PATENT_ENGINES}
    array = {"pass_through": {"f32": 2}, **tables.get("pe_array", {})}
    return ideal_chip(rows, cols, **{**tables, **able, "pe_array": array})


def ideal_chip(rows: int, cols: int, **tables: dict[str, Any]) -> Chip:
    """Return an ideal chip (one clock, latencies 1); `tables` override keys of its tables.

    Its engines are the patent's, unless `engines` lists others.
    """
    chip: dict[str, Any] = {
        "name": f"test {rows} x {cols}",
        "clock": {"core": 1000},
        "state_buffer": {"partitions": max(rows, cols), "bytes_per_partition": 65536, "banks": 8},
        "pe_array": {"rows": rows, "cols": cols, "cycles_per_vector": dict.fromkeys(TYPES, 1)},
        "result_buffer": {"banks": 8, "bank_bytes": 2048},
        "activation": {"independent_lanes": True},
        "pooling": {"independent_lanes": True},
        "dma": {"bytes_per_cycle": 64},
        "dram": {"size_bytes": 1 << 30, "bytes_per_cycle": 64},
    }
    if "engines" in tables:
        del chip["activation"], chip["pooling"]
    for table, values in tables.items():
        if isinstance(values, dict) and table in chip:
            chip[table] = {**chip[table], **values}
        else:
            chip[table] = values
    return Chip.model_validate(chip)
