"""Where a summary comes from: everything it takes to do the run again, as plain values.

That is the version, the run and its chip with every key, the overrides, the files that were read,
and hashes of every input and output. Not here: doing the run again (`systolic.run.again`).
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from systolic import __version__
from systolic.arrays import Array
from systolic.config import Override, RunConfig
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.reading import real_path
from systolic.workload import DataSource, Graph

Entries = dict[str, Any]
SCHEMA = 1
"""Of summary.json: docs/run_files.md, "Reading summaries", says what makes it another number."""


def provenance(config: RunConfig, engine: str, *, values: bool) -> Entries:
    """Return schema, version, config, overrides, files and options of a run file's run.

    config: the tables of the run file with every key; the chip's tables stand in place of its name,
    and data files have their full paths.
    """
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": _resolved(config, engine),
        "overrides": _override_texts(config),
        "files": {"run": str(real_path(config.path)), "chip": str(real_path(config.chip_path))},
        "options": {"values": "exact" if values else "none"},
    }


def graph_provenance(chip: Chip, options: Entries, engine: str, *, values: bool) -> Entries:
    """Return the same entries for a graph from a Python caller, which no file describes.

    options: the compile settings, with the keys of [compile] in a run file.
    """
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": {"chip": chip_tables(chip), "compile": plain(options), "engine": engine},
        "overrides": [],
        "files": {},
        "options": {"values": "exact" if values else "none"},
    }


def program_provenance(
    chip: Chip | MultiCoreChip, engine: str, *, values: bool, check: bool
) -> Entries:
    """Return schema, version, config, overrides and options of a program's run, without files."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": {"chip": chip_tables(chip), "engine": engine},
        "overrides": [],
        "options": {"values": "exact" if values else "none", "check": check},
    }


def chip_tables(chip: Chip | MultiCoreChip) -> Entries:
    """Return a chip as the tables of a chip file, with every key."""
    return chip.model_dump(mode="json")


def input_records(
    graph: Graph, arrays: Mapping[str, Array], sources: Mapping[str, DataSource]
) -> Entries:
    """Return type, shape, layout, data, seed and sha256 of every input of a graph.

    data and seed are None if a Python caller gave the array.
    """
    return {
        name: {
            **_tensor(graph, name),
            **_source_record(sources.get(name)),
            "sha256": array_sha256(arrays.get(name)),
        }
        for name in graph.inputs
    }


def _source_record(source: DataSource | None) -> Entries:
    if source is None:
        return {"data": None, "seed": None}
    seed = source.seed if source.kind == "random" else None
    return {"data": _data_text(source), "seed": seed}


def output_records(graph: Graph, arrays: Mapping[str, Array]) -> Entries:
    """Return type, shape, layout and sha256 of every output of a graph."""
    return {
        name: {**_tensor(graph, name), "sha256": array_sha256(arrays.get(name))}
        for name in graph.outputs
    }


def array_sha256(array: Array | None) -> str | None:
    """Return the SHA-256 of an array's elements in row-major order; None if there are none."""
    if array is None:
        return None
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha256(raw.data).hexdigest()


def _tensor(graph: Graph, name: str) -> Entries:
    shape = graph.shape(name)
    return {"type": shape.element_type, "shape": list(shape.dims), "layout": str(shape)}


def _resolved(config: RunConfig, engine: str) -> Entries:
    return {
        "name": config.name,
        "description": config.description,
        "chip": chip_tables(config.chip),
        "workload": _workload(config),
        "compile": config.compile.model_dump(mode="json"),
        "engine": engine,
        "sweep": [
            {**sweep.model_dump(exclude={"vary"}), "vary": plain(sweep.vary)}
            for sweep in config.sweep
        ],
    }


def _workload(config: RunConfig) -> Entries:
    """Return the table [workload] with the seed of each input and full paths of data files."""
    table = config.workload.model_dump(mode="json")
    for name, entry in table["tensors"].items():
        source = config.sources.get(name)
        if source is None:  # of an input that a part of the graph does not take
            continue
        if entry["data"] is None and source.kind == "file":
            table["data"] = _data_text(source)
        entry |= {"data": _data_text(source), "home": entry["home"] or table["home"]}
        entry["seed"] = source.seed if source.kind == "random" else None
    if not table["tensors"] and config.graph.inputs:
        source = config.sources[config.graph.inputs[0]]
        table |= {"data": _data_text(source)}
        table["seed"] = source.seed if source.kind == "random" else None
    return table


def _data_text(source: DataSource) -> str:
    return str(real_path(source.path)) if source.kind == "file" else source.kind


def _override_texts(config: RunConfig) -> list[str]:
    """Return KEY=VALUE of every override, in order; of two of one key the later counts."""
    earlier = config.recorded.overrides if config.recorded else ()
    return [*earlier, *map(override_text, config.overrides)]


def override_text(override: Override) -> str:
    """Return KEY=VALUE of an override: as the user wrote it, or made from its key and value."""
    if override.text is not None:
        return override.text
    return f"{'.'.join(override.path)}={json.dumps(plain(override.value))}"


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: a date, NaN and the like become text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
