"""What loads and multiplies ask of the ports, and when: the same for all that are alike.

Not here: when they start (`unit`), and what they bring (`operand`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

from systolic.hw.spec import Chip
from systolic.isa import Access, LoadWeights, MatMul, MatMulDoubleRow, MatMulMx, PassThrough
from systolic.isa.effects import scales_of
from systolic.machine.event.ports.ports import (
    Need,
    Needs,
    Port,
    Stretch,
    Timeline,
    group_stretches,
    in_bank,
    merge,
    needs,
    steady,
    with_scales,
)

PLANS_KEPT = 1024
_Plan = TypeVar("_Plan")


class MultiplyPlan(NamedTuple):
    """What a multiply asks of the ports, and when.

    spacing: cycles from a vector to the next. passes: how often all are streamed. silent: the
    injections that leave no sums. needs: of its sums, that come `behind` cycles after an injection,
    for `width` cycles.
    """

    timeline: Timeline
    spacing: int
    passes: int
    silent: int
    needs: Needs
    behind: int
    width: int


class ArrayPlans:
    """The plans of one array's loads and multiplies, each made once.

    spec: of the array. depth: cycles from an injection to the write of column 0's sum.
    """

    def __init__(self, chip: Chip) -> None:
        self.spec = spec = chip.pe_array
        self._port_bytes = chip.port_width_bytes
        self._bank_bytes = chip.state_buffer.bank_bytes
        self._result_bank_bytes = chip.result_buffer.bank_bytes
        self._is_parted = chip.state_buffer.is_split or bool(spec.tile_sizes)
        down = spec.hop[0] * (spec.rows // spec.cell[0])
        self.depth = spec.entry_cycles + down - 1 + chip.result_buffer.write_latency_cycles
        self._loads: dict[Hashable, Timeline] = {}
        self._multiplies: dict[Hashable, MultiplyPlan] = {}

    def right(self, column: int) -> int:
        """Return the cycles by which a column's sums come later than the sums of column 0."""
        return self.spec.hop[1] * (column // self.spec.cell[1])

    def behind(self, column: int) -> int:
        """Return the cycles from an injection to the write of a column's sum."""
        return self.depth + self.right(column)

    def result_bank(self, multiply: MatMul) -> int:
        """Return the bank of the result buffer to which a multiply writes."""
        return multiply.result.span.first // self._result_bank_bytes

    def columns_per_read(self, load: LoadWeights) -> int:
        """Return the columns that a read brings: of all rows from the left, of f from the top."""
        fitting = self._port_bytes // (load.weights.element_bytes * load.elements_per_pe)
        most = self.spec.fast_load if self.spec.weight_path == "left" else load.columns
        return min(most, fitting)

    def reads_per_row(self, load: LoadWeights) -> int:
        """Return the reads that bring a row of weights whole."""
        return -(-load.columns // self.columns_per_read(load))

    def of_load(self, load: LoadWeights) -> Timeline:
        """Return what a load asks of the ports."""
        weights = in_bank(load.weights, self._bank_bytes)
        key = type(load), weights, self._scales(load)
        found = self._loads.get(key)
        if found is None:
            found = _keep(self._loads, key, self._load_timeline(load))
        return found

    def of_multiply(self, multiply: MatMul) -> MultiplyPlan:
        """Return what a multiply asks of the ports."""
        moving = in_bank(multiply.moving, self._bank_bytes)
        result = in_bank(multiply.result, self._result_bank_bytes)
        key = type(multiply), moving, result, self._scales(multiply), multiply.accumulate
        found = self._multiplies.get(key)
        if found is None:
            found = _keep(self._multiplies, key, self._multiply_plan(multiply))
        return found

    def _scales(self, instruction: LoadWeights | MatMul) -> Hashable:
        """Return the access to the scales of an instruction by its bank, if it has some."""
        scales = scales_of(instruction)
        return None if scales is None else in_bank(scales, self._bank_bytes)

    def _load_timeline(self, load: LoadWeights) -> Timeline:
        bank_bytes, weights = self._bank_bytes, load.weights
        parts, from_top = self.reads_per_row(load), self.spec.weight_path == "top"
        if from_top and self._is_parted:
            return self._row_timeline(weights, parts)
        groups = weights.partitions if from_top else 1
        reads = -(-groups // self.spec.fast_load) * parts
        bank, scales = weights.bank(bank_bytes), scales_of(load)
        if bank is not None and scales is None:
            return steady(needs(weights, (bank,), "read"), reads)
        together = self.columns_per_read(load)
        of_weights = group_stretches(weights, together * load.elements_per_pe, bank_bytes, "read")
        if scales is None:
            return Timeline(of_weights, reads)
        of_scales = group_stretches(scales, together, bank_bytes, "read")
        return Timeline(with_scales(of_weights, of_scales, reads), reads)

    def _row_timeline(self, weights: Access, parts: int) -> Timeline:
        """Return what a load on the top path needs where partitions keep reads apart."""
        fast, stop = self.spec.fast_load, weights.partition + weights.partitions
        bank = weights.span.first // self._bank_bytes  # legality: there is but one
        port = Port(weights.buffer.value, bank, "read")
        firsts = range(weights.partition, stop, fast)
        rows = [(Need(port, first, min(first + fast, stop)),) for first in firsts]
        stretches = [Stretch(n * parts, (n + 1) * parts, each) for n, each in enumerate(rows)]
        return Timeline(stretches, len(rows) * parts)

    def _multiply_plan(self, multiply: MatMul) -> MultiplyPlan:
        written = multiply.result.lanes
        width = self.right(written.stop - 1) + 1 - self.right(written.first)
        depth, passes = self.behind(written.first), self._passes(multiply)
        behind, width = (depth, width) if depth else (1, width - 1)
        silent = (passes - 1) * multiply.vectors
        return MultiplyPlan(
            timeline=self._multiply_timeline(multiply, silent),
            spacing=self._spacing(multiply),
            passes=passes,
            silent=silent,
            needs=self._result_needs(multiply),
            behind=behind,
            width=width,
        )

    def _spacing(self, multiply: MatMul) -> int:
        """Return the cycles from a vector to the next."""
        if isinstance(multiply, PassThrough):
            return self.spec.pass_through[multiply.moving.dtype]
        if isinstance(multiply, MatMulDoubleRow):
            return self.spec.double_row[multiply.moving.dtype]
        if isinstance(multiply, MatMulMx):
            return self.spec.mx[multiply.moving.dtype]
        return self.spec.cycles_per_vector[multiply.moving.dtype]

    def _passes(self, multiply: MatMul) -> int:
        """Return how often the vectors are streamed."""
        if isinstance(multiply, PassThrough | MatMulDoubleRow | MatMulMx):
            return 1
        return self.spec.passes.get(multiply.moving.dtype, 1)

    def _multiply_timeline(self, multiply: MatMul, silent: int) -> Timeline:
        bank_bytes, moving = self._bank_bytes, multiply.moving
        injections = silent + multiply.vectors
        bank = moving.bank(bank_bytes)
        depth, scales = self.behind(multiply.result.partition), scales_of(multiply)
        if depth and bank is not None and scales is None:
            return steady(needs(moving, (bank,), "read"), injections)
        together = multiply.elements_per_pe
        reads = [
            stretch
            for first in range(0, injections, multiply.vectors)
            for stretch in group_stretches(moving, together, bank_bytes, "read", first)
        ]
        if scales is not None:
            of_scales = group_stretches(scales, 1, bank_bytes, "read")
            reads = with_scales(reads, of_scales, injections)
        if depth:
            return Timeline(reads, injections)
        result = [Stretch(silent, injections, self._result_needs(multiply))]
        return merge(reads, result, injections)

    def _result_needs(self, multiply: MatMul) -> Needs:
        bank = self.result_bank(multiply)
        want = needs(multiply.result, (bank,), "write")
        return needs(multiply.result, (bank,), "read") + want if multiply.accumulate else want


def _keep(plans: dict[Hashable, _Plan], key: Hashable, plan: _Plan) -> _Plan:
    """Keep a plan, and forget the oldest if there are many."""
    plans[key] = plan
    if len(plans) > PLANS_KEPT:
        del plans[next(iter(plans))]
    return plan
