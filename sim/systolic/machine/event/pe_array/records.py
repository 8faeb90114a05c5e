"""What a trace keeps of loads and multiplies beside their times: words, and what is in the grid.

Not here: when the accesses were made, which the unit knows (`unit`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.isa import Access, LoadWeights, MatMul, PassThrough
from systolic.machine.array_shape import placed
from systolic.machine.event.pe_array.operand import ArrayOperand, planes_of
from systolic.machine.event.pe_array.plans import ArrayPlans
from systolic.machine.event.ticks import Ticks
from systolic.trace.passes import LoadPass, MatMulPass
from systolic.trace.recorder import Recorder
from systolic.trace.words import Words


class ArrayRecords:
    """Hands the words and the grid's history of one array to a recorder.

    period: ticks of a cycle of the array, whose name is `unit`.
    """

    def __init__(self, recorder: Recorder, plans: ArrayPlans, unit: str, period: int) -> None:
        self._recorder, self._plans = recorder, plans
        self._unit, self._period = unit, period

    def load_pass(
        self, index: int, load: LoadWeights, ticks: Ticks, weights: ArrayOperand | None
    ) -> None:
        """Note the reads of a load; ticks: of each."""
        values = weights.values if weights else np.zeros((0, 0), np.float32)
        columns, cycles = self._plans.columns_per_read(load), ticks // self._period
        held, *further = planes_of(values, load.rows_per_pe)
        one = LoadPass(index, cycles, held, columns, placed(load), further=tuple(further))
        self._recorder.loads.append(one)

    def load_words(
        self, index: int, load: LoadWeights, ticks: Ticks, weights: ArrayOperand
    ) -> None:
        """Record the words that a load reads; ticks: of each read."""
        spec, together = self._plans.spec, self._plans.columns_per_read(load)
        K, elements = weights.elements.shape
        number = np.arange(elements)[None, :] // load.elements_per_pe // together
        if spec.weight_path == "top":
            row = np.arange(K)[:, None] // spec.fast_load
            number = row * self._plans.reads_per_row(load) + number
        self._words("load", index, load.weights, ticks[number], weights.elements)
        for part, scales in weights.scales:
            self._words("load", index, part, ticks[np.arange(load.columns) // together], scales)

    def multiply_passes(
        self,
        index: int,
        multiply: MatMul,
        ticks: Ticks,
        moving: ArrayOperand | None,
        *,
        silent: int,
        exchange: bool,
    ) -> None:
        """Note the injections of all passes; `silent` of them leave no sums. ticks: of each."""
        cycles, N = ticks // self._period, multiply.result.partitions
        nothing = np.zeros((0, (len(cycles) - silent)), np.float32)
        operand, rows = (moving.values, multiply.rows_per_pe) if moving else (nothing, 1)
        first, *further = planes_of(operand, rows)
        one = MatMulPass(
            index,
            cycles[silent:],
            first.T,
            N,
            exchange,
            silent=cycles[:silent],
            is_pass_through=isinstance(multiply, PassThrough),
            place=placed(multiply),
            further=tuple(plane.T for plane in further),
        )
        self._recorder.matmuls.append(one)

    def multiply_words(
        self,
        index: int,
        multiply: MatMul,
        ticks: Ticks,
        moving: ArrayOperand,
        sums: npt.NDArray[Any],
    ) -> None:
        """Record the words that a multiply reads and its sums; ticks: of each injection."""
        vectors = multiply.vectors
        if self._recorder.wants("inject"):
            for first in range(0, len(ticks), vectors):
                part = ticks[first : first + vectors]
                each = np.repeat(part, multiply.elements_per_pe)
                self._words("inject", index, multiply.moving, each, moving.elements)
                for scales, read in moving.scales:
                    self._words("inject", index, scales, part, read)
        if self._recorder.wants("psum_write"):
            behind = np.array([self._plans.behind(c) for c in range(*multiply.result.lanes)])
            written = ticks[None, -vectors:] + behind[:, None] * self._period
            self._words("psum_write", index, multiply.result, written, sums)

    def _words(
        self, kind: str, index: int, access: Access, ticks: Ticks, values: npt.NDArray[Any]
    ) -> None:
        """Record the words of an access, [partitions, elements]; ticks broadcast to that shape."""
        shape = values.shape
        partitions = access.partition + np.arange(shape[0])[:, None]
        self._recorder.words(
            kind,
            self._unit,
            index,
            Words(
                ticks=np.broadcast_to(ticks, shape).ravel(),
                partitions=np.broadcast_to(partitions, shape).ravel(),
                addresses=np.broadcast_to(access.offsets(), shape).ravel(),
                buffer=access.buffer,
                dtype=access.dtype,
                values=values.ravel(),
            ),
        )
