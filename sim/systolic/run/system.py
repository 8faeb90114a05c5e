"""From a system file to a result: `load_system`, `run_system`, and the summary of what happened.

Not here: what the tables mean (`systolic.network`), what is printed (`systolic.cli.run_system`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from systolic import __version__
from systolic.config.explain import explain
from systolic.config.override import Override, apply, origin_of
from systolic.config.toml_file import read_toml
from systolic.errors import ConfigError, SimulationError, SystolicError
from systolic.network.network import Network
from systolic.network.outcome import NetworkOutcome
from systolic.network.read import network_of
from systolic.network.simulate import engine_of
from systolic.network.system import SystemFile, system_traffic
from systolic.network.traffic import Traffic
from systolic.run.file_kinds import RUN_FILE

SYSTEM_FILE = re.compile(rb"^\s*(\[network\]|network\.\w+\s*=|network\s*=)", re.MULTILINE)
HEAD_BYTES = 1 << 16
MOST_RECORDED_HOPS = 20_000_000


@dataclass(frozen=True, eq=False)
class System:
    """A system file that was read. origin: its path, as messages call it."""

    name: str
    file: SystemFile
    network: Network
    traffic: Traffic
    path: Path
    overrides: tuple[Override, ...]


@dataclass(frozen=True, eq=False)
class SystemResult:
    """A system that has been run."""

    system: System
    outcome: NetworkOutcome
    summary: Mapping[str, Any]


def is_system_file(path: Path) -> bool:
    """Return whether a TOML file looks like a system file: it has a network, and no chip."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return bool(SYSTEM_FILE.search(head)) and not RUN_FILE.search(head)


def load_system(path: Path, overrides: Sequence[Override] = ()) -> System:
    """Return the system of a file after overrides of its keys; ConfigError in one line."""
    tables = apply(read_toml(path, "a system file"), overrides)
    try:
        file = SystemFile.model_validate(tables)
    except ValidationError as error:
        raise explain(error, SystemFile, lambda at: origin_of(at, overrides, str(path))) from None
    table = file.network
    if table.file is not None:
        table = table.model_copy(update={"file": str(path.parent / table.file)})
    try:
        network = network_of(table)
        traffic = system_traffic(file, network)
    except SystolicError as error:
        raise ConfigError(f"{path}: {error}") from None
    name = file.name or path.stem
    return System(name, file, network, traffic, path, tuple(overrides))


def run_system(system: System, *, hops: bool = False) -> SystemResult:
    """Return the result of a system; hops: whether every hop of every packet is recorded.

    Raises:
        SimulationError: a deadlock, or bytes that were sent and not received.

    """
    if hops:
        _require_few(system)
    simulate = engine_of(system.file.engine)
    outcome = simulate(system.network, system.traffic, hops=hops)
    if outcome.sent_bytes != outcome.received_bytes:
        raise SimulationError(
            f"{system.name}: {outcome.sent_bytes} bytes were sent and {outcome.received_bytes} "
            "received"
        )
    return SystemResult(system, outcome, summary_of(system, outcome))


def _require_few(system: System) -> None:
    """Refuse to record more hops than memory can hold."""
    network, traffic = system.network, system.traffic
    most = network.packet_bytes
    packets = len(traffic) if most is None else sum(-(-s // most) for s in traffic.sizes_bytes)
    if packets > MOST_RECORDED_HOPS:
        raise ConfigError(
            f"{system.path}: has {packets} packets, and every hop is recorded of at most "
            f"{MOST_RECORDED_HOPS}; larger packet_bytes, or less data, show the same"
        )


def summary_of(system: System, outcome: NetworkOutcome) -> dict[str, Any]:
    """Return the summary of a run: what is in summary.json."""
    network = system.network
    deepest = max(outcome.deepest_packets, default=0)
    return {
        "schema": 1,
        "version": __version__,
        "run": system.name,
        "kind": "system",
        "engine": system.file.engine,
        "config": system.file.model_dump(mode="json", exclude_none=True, exclude_unset=True),
        "overrides": [each.text or each.origin for each in system.overrides],
        "files": {"run": str(system.path.resolve())},
        "cycles": outcome.ticks,
        **({} if network.ticks_mhz is None else {"ns": outcome.ticks * 1000 / network.ticks_mhz}),
        "messages": len(system.traffic),
        "packets": outcome.packets,
        "packet_hops": outcome.packet_hops,
        "sent_bytes": outcome.sent_bytes,
        "received_bytes": outcome.received_bytes,
        "deepest_queue_packets": deepest,
        "links": [
            {
                "link": number,
                "source": link.source,
                "target": link.target,
                "busy_cycles": busy,
                "blocked_cycles": blocked,
            }
            for number, (link, busy, blocked) in enumerate(
                zip(network.links, outcome.busy_cycles, outcome.blocked_cycles, strict=True)
            )
        ],
    }
