"""The key of a point: SHA-256 of all that its results depend on.

That is the resolved chip, the work, the options, the contents of the files that are read, and the
version of the timing rules. Names and descriptions of chips and files are no part of it, because
no result depends on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from systolic.config import RunConfig
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.reading import check_file
from systolic.workload import DataSource

TIMING_VERSION = 5
"""Of the rules that say which cycle a thing happens in, and of the compiler's choices.

It goes up by one whenever a pinned count moves: results of other rules must not count as these.
"""


def digest_of(value: Any) -> bytes:
    """Return the SHA-256 of plain values, whatever the order of their keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return sha256(text.encode()).digest()


@dataclass(slots=True)
class Digests:
    """Digests of the parts of runs. A part that several runs share is digested once."""

    values: bool
    _parts: dict[int, tuple[object, bytes]] = field(default_factory=dict)
    _files: dict[Path, str] = field(default_factory=dict)

    def key_of_run(self, config: RunConfig, compiled_for: str = "") -> str:
        """Return the key of a run file's run, as hexadecimal text.

        compiled_for: the key of the run that the program was compiled for; "" if it is this one.
        """
        work = self._once(config.workload, lambda: self._work(config))
        rest = [self.values, config.engine, compiled_for]
        compile_table = self._once(
            config.compile, lambda: digest_of(config.compile.model_dump(mode="json"))
        )
        return self._key(b"run", self.chip(config.chip), work, compile_table, digest_of(rest))

    def key_of_program(self, program: str, chip: Chip, engine: str) -> str:
        """Return the key of a program's run; program: the SHA-256 of its file."""
        return self._key(b"program", self.chip(chip), digest_of([program, engine, self.values]))

    def key_of_values(self, values: Any) -> str:
        """Return the key of a point that cannot be resolved: its error depends on all values."""
        return self._key(b"values", digest_of([values, self.values]))

    def chip(self, chip: Chip) -> bytes:
        """Return the digest of a chip."""
        return self._once(chip, lambda: digest_of(_chip_tables(chip)))

    def _work(self, config: RunConfig) -> bytes:
        table = config.workload.model_dump(mode="json", exclude=_NO_WORK)
        tensors = {
            name: entry.model_dump(mode="json", exclude=_NO_TENSOR)
            for name, entry in config.workload.tensors.items()
        }
        sources = {name: self._source(source) for name, source in config.sources.items()}
        return digest_of([table, tensors, sources, self._accuracy(config)])

    def _source(self, source: DataSource) -> list[Any]:
        if not self.values:  # no data are read
            return []
        file = self.file(source.path) if source.kind == "file" else ""
        return [source.kind, source.seed, source.deviation, source.array, source.images, file]

    def _accuracy(self, config: RunConfig) -> list[Any]:
        table = config.workload.accuracy
        if table is None or not self.values:
            return []
        labels = self.file(config.path.parent / table.labels)
        return [table.model_dump(mode="json", exclude={"labels"}), labels]

    def file(self, path: Path) -> str:
        """Return the SHA-256 of a file's contents; it is read once in the life of this object."""
        if path not in self._files:
            check_file(path, SystolicError)
            found = sha256()
            try:
                with path.open("rb") as file:
                    while block := file.read(1 << 20):
                        found.update(block)
            except OSError as error:
                text = f"{path}: cannot be read ({error.strerror or error})"
                raise SystolicError(text) from None
            self._files[path] = found.hexdigest()
        return self._files[path]

    def _once(self, part: object, digest: Callable[[], bytes]) -> bytes:
        """Return the digest of a part; it is kept with the part itself, whose id it goes by."""
        found = self._parts.get(id(part))
        if found is None:
            if len(self._parts) >= MOST_KEPT:
                self._parts.clear()
            found = self._parts[id(part)] = (part, digest())
        return found[1]

    def _key(self, *parts: bytes) -> str:
        return sha256(b"\0".join((str(TIMING_VERSION).encode(), *parts))).hexdigest()


MOST_KEPT = 4096
_NO_WORK = {"tensors", "data", "seed", "deviation", "accuracy"}
_NO_TENSOR = {"data", "array", "seed", "deviation"}


def _chip_tables(chip: Chip) -> Mapping[str, Any]:
    return chip.model_dump(mode="json", exclude={"name", "description", "provenance"})
