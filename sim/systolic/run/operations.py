"""The record of each operation of a graph: its cycles, its bound, its bytes, what held it back.

An instruction belongs to the operation that the compiler made it for. So bytes and refused or
waiting cycles of all operations sum to the run's; a load that two operations share counts
for one of them. Not here: how the records are shown (`systolic.report.summary.layers`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from systolic.bounds import OperationBound, operation_bounds, product_multiply_adds
from systolic.compiler import CompiledGraph
from systolic.critical_path.streamed import streamed
from systolic.hw.spec import Chip
from systolic.isa import Buffer, MatMul, Program
from systolic.isa.effects import reads, writes
from systolic.run.array_time import (
    LabelTimes,
    Streamed,
    UnderWay,
    lost_cycles,
    streamed_by_layer,
    stretches,
    windows,
)
from systolic.run.transposed import transposed_by_layer
from systolic.run.utilisation import utilisation
from systolic.trace.records import Trace
from systolic.workload import Graph

WAITING = "waiting for"


class LayerBytes(NamedTuple):
    """Bytes that instructions read and write: in DRAM, and in the state and result buffers."""

    dram_bytes: int
    on_chip_bytes: int


def traffic_by_layer(program: Program, layers: Sequence[str]) -> dict[str, LayerBytes]:
    """Return the bytes that the instructions of each layer move.

    layers: of each instruction. Every access counts with all its elements, also those that it
    reads again. A sum that is added to is read and written. A copy from DRAM to DRAM counts at both
    of its ends.
    """
    dram, on_chip = Counter[str](), Counter[str]()
    for layer, instruction in zip(layers, program.instructions, strict=True):
        for access in (*reads(instruction), *writes(instruction)):
            counts = dram if access.buffer is Buffer.DRAM else on_chip
            counts[layer] += access.size_bytes
    return {layer: LayerBytes(dram[layer], on_chip[layer]) for layer in dict.fromkeys(layers)}


def total_traffic(traffic: Mapping[str, LayerBytes]) -> dict[str, int]:
    """Return the bytes that all layers together move, as entries of a summary."""
    return {
        "dram_bytes": sum(each.dram_bytes for each in traffic.values()),
        "on_chip_bytes": sum(each.on_chip_bytes for each in traffic.values()),
    }


def stalls_by_layer(trace: Trace, layers: Sequence[str]) -> dict[str, Counter[str]]:
    """Return, by layer and reason, the cycles in which a layer's instructions were held back.

    The cycles are cycles of the instructions' units. For a refused port the reason is "stalled by"
    and the holder of the port. The other reasons are the units' labels "waiting for": a unit that
    waits does so for the next instruction that it starts.
    """
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for stall in trace.stalls:
        found[layers[stall.instruction]][f"stalled by {stall.winner}"] += stall.cycles
    for instruction, reason, cycles in _waits(trace):
        found[layers[instruction]][reason] += cycles
    return dict(found)


def _waits(trace: Trace) -> Iterator[tuple[int, str, int]]:
    """Yield (instruction, reason, cycles) of all stretches in which a unit waited."""
    started: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for each in trace.times:
        started[each.unit].append((each.start // trace.periods[each.unit], each.instruction))
    for unit, starts in started.items():
        starts.sort()
        cycles = [cycle for cycle, _ in starts]
        for first, stop, label in trace.labels[unit]:
            if label.startswith(WAITING):
                for place, length in _by_next(cycles, first, stop):
                    yield starts[place][1], label, length


def _by_next(starts: Sequence[int], first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut cycles first <= cycle < stop at the starts; yield (the next start's place, cycles)."""
    while first < stop:
        place = bisect_right(starts, first)
        assert place < len(starts), "a unit waits for an instruction that it never starts"
        until = min(stop, starts[place])
        yield place, until - first
        first = until


def operation_records(
    compiled: CompiledGraph, chip: Chip, trace: Trace, traffic: Mapping[str, LayerBytes]
) -> list[dict[str, Any]]:
    """Return the record of each operation, as summary.json holds it.

    Cycles are the array's, from the operation's first start to its last end. Operations overlap,
    so the cycles of all do not sum to the run's. Those in which the array is at an operation do
    (`array`). An operation has 0 cycles if the instructions of other operations do its work.
    """
    bounds = operation_bounds(compiled.graph, chip)
    useful = product_multiply_adds(compiled.graph)
    under_way = windows(compiled.synchronised.layers, trace)
    stalls = stalls_by_layer(trace, compiled.synchronised.layers)
    array = _array_records(compiled, chip, trace, under_way, useful)
    transposed, vectors = transposed_by_layer(compiled), _streamed_vectors(compiled)
    numbered = dict(_numbered(compiled.graph))
    taken = {name: window.cycles for name, window in under_way.items()}
    return [
        _record(each, taken.get(each.name, 0), useful.get(each.name, 0), chip)
        | traffic.get(each.name, LayerBytes(0, 0))._asdict()
        | {"stalls": dict(sorted(stalls.get(each.name, Counter()).items(), key=_costliest))}
        | array.get(each.name, NO_ARRAY)
        | {"streamed_vectors": vectors[each.name]}
        | {"transposed": [one._asdict() for one in transposed.get(each.name, ())]}
        | ({"any_numbers_in": numbered[each.name]} if each.name in numbered else {})
        for each in bounds
    ]


def _numbered(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield the operations whose work is the same for any numbers, and the tensor of these."""
    for op in graph.operations:
        for operand, name in zip(op.row.operands, op.inputs, strict=False):
            if operand.name == op.row.numbered:
                yield op.name, name


def _streamed_vectors(compiled: CompiledGraph) -> Counter[str]:
    """Return the vectors that the array streams for each operation, also to transpose."""
    found = Counter[str]()
    layers, instructions = compiled.synchronised.layers, compiled.program.instructions
    for layer, each in zip(layers, instructions, strict=True):
        if isinstance(each, MatMul):
            found[layer] += each.moving.elements
    return found


def _array_records(
    compiled: CompiledGraph,
    chip: Chip,
    trace: Trace,
    under_way: Mapping[str, UnderWay],
    useful: Mapping[str, int],
) -> dict[str, dict[str, Any]]:
    """Return, of each operation that has instructions, where the array's time goes."""
    how, labels = streamed(compiled.program, chip, trace), LabelTimes(trace.labels["pe_array"])
    by_layer = streamed_by_layer(compiled, how)
    at_it = stretches(compiled.synchronised.layers, how, trace)
    found = {}
    for name, window in under_way.items():
        own, multiply_adds = by_layer.get(name, Streamed()), useful.get(name, 0)
        seen = labels.within((window.first, window.stop))
        meanwhile = lost_cycles(window.cycles, seen, own, multiply_adds, chip)
        record = NO_TIME
        if mine := at_it.get(name):
            cycles = sum(stop - first for first, stop in mine)
            record = {
                "cycles": cycles,
                "utilisation": utilisation(multiply_adds, cycles, chip),
                "lost": lost_cycles(cycles, labels.within(*mine), own, multiply_adds, chip),
            }
        found[name] = _array_record(own, meanwhile) | {"array": record}
    return found


def _array_record(own: Streamed, lost: Mapping[str, int]) -> dict[str, Any]:
    return {"streamed_cycles": own.cycles, "turned_cycles": own.turned, "lost": dict(lost)}


NO_TIME: dict[str, Any] = {"cycles": 0, "utilisation": 0.0, "lost": {}}
NO_ARRAY = _array_record(Streamed(), {}) | {"array": NO_TIME}


def array_totals(compiled: CompiledGraph, chip: Chip, trace: Trace) -> dict[str, Any]:
    """Return where the array's time goes in the whole run, as entries of a summary."""
    own, useful = Streamed(), sum(product_multiply_adds(compiled.graph).values())
    how = streamed(compiled.program, chip, trace)
    for each in streamed_by_layer(compiled, how).values():
        own = own.plus(each)
    labels, cycles = LabelTimes(trace.labels["pe_array"]), trace.cycles()
    return _array_record(own, lost_cycles(cycles, labels.within((0, cycles)), own, useful, chip))


def _record(each: OperationBound, cycles: int, multiply_adds: int, chip: Chip) -> dict[str, Any]:
    return {
        "name": each.name,
        "op": each.kind,
        "cycles": cycles,
        "multiply_adds": multiply_adds,
        "utilisation": utilisation(multiply_adds, cycles, chip),
        "bound": {"cycles": each.bound.cycles, "why": each.bound.why},
    }


def _costliest(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
