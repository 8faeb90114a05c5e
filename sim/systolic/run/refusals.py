"""All that a chip cannot do of a graph, said at once by kind of operation and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from systolic.config import RunConfig
from systolic.errors import shortened
from systolic.hw.spec import Chip
from systolic.progress import Progress
from systolic.run.partial import refused_operations
from systolic.workload import Graph
from systolic.workload.importers.models import is_model, read_model
from systolic.workload.options import Options

LONGEST_REASON = 160


@dataclass(frozen=True, slots=True)
class RefusedKind:
    """Operations of one kind that a chip refuses for one reason; first: the name of the first."""

    kind: str
    count: int
    first: str
    why: str


def refusals(
    graph: Graph, chip: Chip, options: Options | None = None, progress: Progress | None = None
) -> list[RefusedKind]:
    """Return what the chip refuses of a graph, by kind and reason, in the order of the graph."""
    found: dict[tuple[str, str], RefusedKind] = {}
    kinds = {op.name: op.kind for op in graph.operations}
    for name, why in refused_operations(graph, chip, options, progress).items():
        kind = kinds[name]
        reason = shortened(_without_name(why, name), LONGEST_REASON)
        known = found.get((kind, reason))
        first, count = (known.first, known.count + 1) if known else (name, 1)
        found[kind, reason] = RefusedKind(kind, count, first, reason)
    return list(found.values())


def _without_name(why: str, name: str) -> str:
    return why.removeprefix(f'operation "{name}": ')


def refusal_text(found: RefusedKind, places: Mapping[str, str]) -> str:
    """Return a refusal as a line. places: where operations stand in the model's file."""
    place = f" at {places[found.first]}" if found.first in places else ""
    return f'{found.kind} ({found.count}, first "{found.first}"{place}): {found.why}'


def all_refused(config: RunConfig, progress: Progress | None = None) -> str | None:
    """Return the line that names all that the chip refuses of a run; None if it has no need of one.

    Of a model the first place of each is said, by line and column. The compiler's own words do if
    the operations of a run file are refused for one reason at most.
    """
    model = is_model(config.path)
    if not model and len(config.graph.operations) < 2:
        return None
    found = refusals(config.graph, config.chip, config.options, progress)
    if len(found) < (1 if model else 2):
        return None
    places = read_model(config.path).places if model else {}
    said = "; ".join(refusal_text(each, places) for each in found)
    return f"{config.path}: cannot be done on {config.chip.name}: {said}"
