"""Copies whose rows engines interleave by words: DMA brings every second element to its row.

Elements of one or two bytes that lie side by side in a lane before, and in rows far apart
afterwards, cost an engine a write each. But a word of two of them, x and y, may be written to the
row of x. A queue copies that row, but for its first element, to the row of y: so every second
element of both rows is at home, and engines write the others singly. That is three writes for four
elements. A queue is behind its latency, and at the port of a bank it waits for engines. So all
words come first, elements of lines that no queue copies next, and then what is left of the lines in
the order of the queues; lines that are copied lie in other banks than those that are not. Not here:
where lines lie (`lower.rows_by_words`), and instructions (`schedule.engine_work`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from typing import NamedTuple

from systolic.compiler.cost.dma import inside_cycles
from systolic.compiler.cost.engines import engine_cycles, lane_copy_engines
from systolic.compiler.ir.access_cuts import faults_left
from systolic.compiler.ir.copy_cuts import CopyDigit, copy_digits
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Copy, DmaCopy
from systolic.isa.access import MAX_PAIRS
from systolic.spans import Span

PAIRS = {1: "u16", 2: "s32"}
"""The type of a word of two elements, by the bytes of one."""
EIGHTHS = 8
"""A line may be copied in part: so many eighths of its rows' elements."""


class WordsStep(NamedTuple):
    """An instruction, and the number of the one for which it waits (None: it waits for none)."""

    work: Copy | DmaCopy
    after: int | None = None


@dataclass(frozen=True, slots=True)
class RowsByWords:
    """The instructions of a copy, in the order in which they are queued, and about their ticks."""

    steps: tuple[WordsStep, ...]
    ticks: int


class _Line(NamedTuple):
    """Rows that lie together: the first bytes of both sides, and their banks."""

    source: int
    target: int
    bank: int


class _Job(NamedTuple):
    """Some elements of all rows of a line whose words DMA copies, and the queue that does it."""

    line: _Line
    some: Span
    queue: int


class _Work(NamedTuple):
    """What an engine does: `kind` of some elements of a line; job: the number of its words' one."""

    kind: str
    line: _Line
    some: Span
    job: int | None = None


def rows_by_words(chip: Chip, copy: Copy) -> RowsByWords | None:
    """Return how engines and DMA make a copy by words; None if they cannot.

    copy: within lanes of the state buffer, of elements of one or two bytes. Its lines, which have
    the longest steps in the target, lie in as many banks of the source as engines take part, and in
    three banks of the target or more for each of these.
    """
    shape = _Shape.of(chip, copy)
    if shape is None:
        return None
    lines = shape.lines_of_engines()
    if lines is None:
        return None
    found, ticks = list[WordsStep](), 0
    for number, (engine, own) in enumerate(zip(shape.engines, lines, strict=True)):
        best = min(shape.plans(own, number), key=lambda plan: plan[0], default=None)
        if best is None:
            return None
        ticks = max(ticks, best[0])
        steps = [*shape.steps(engine, *best[1:])]
        found += [
            step if step.after is None else step._replace(after=step.after + len(found))
            for step in steps
        ]
    if any(faults_left(step.work, chip) for step in found if isinstance(step.work, Copy)):
        return None
    return RowsByWords(tuple(found), ticks)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A copy in digits: lines, others, and those that count neighbours before and after.

    side: elements side by side before. row: those side by side afterwards.
    """

    chip: Chip
    copy: Copy
    engines: tuple[str, ...]
    lines: CopyDigit
    others: tuple[CopyDigit, ...]
    side: CopyDigit
    row: CopyDigit

    @classmethod
    def of(cls, chip: Chip, copy: Copy) -> _Shape | None:
        """Return a copy in digits; None if it has no such ones, or no two engines are alike."""
        whole, size = copy_digits(copy), copy.source.element_bytes
        engines = tuple(lane_copy_engines(chip, copy))
        alike = {(chip.period(name), engine_cycles(chip, name, copy)) for name in engines}
        if whole is None or size not in PAIRS or len(engines) < 2 or len(alike) > 1:
            return None
        if chip.dma.is_spread or chip.dma.queues < len(engines):
            return None
        side = next((digit for digit in whole.digits if digit.source == 1), None)
        row = next((digit for digit in whole.digits if digit.target == 1), None)
        if side is None or row is None or side == row:
            return None
        rest = [digit for digit in whole.digits if digit not in (side, row)]
        lines = max(rest, key=lambda digit: digit.target, default=None)
        if lines is None or side.size % 2 or row.size % 2 or side.target < row.size:
            return None
        others = tuple(digit for digit in rest if digit != lines)
        even = [step for digit in rest for step in digit[1:]]
        starts = copy.source.start, copy.target.start
        if any(step % 2 for step in even) or any(at % (2 * size) for at in starts):
            return None
        if len(others) + 2 > MAX_PAIRS:
            return None
        return cls(chip, copy, engines, lines, others, side, row)

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return self.copy.source.element_bytes

    def lines_of_engines(self) -> list[list[_Line]] | None:
        """Return the lines of each engine, which has its own banks; None if some are in two."""
        each, rest = divmod(self.lines.size, len(self.engines))
        if rest:
            return None
        found = [
            [self._line(n) for n in range(each * k, each * k + each)]
            for k in range(len(self.engines))
        ]
        if any(line is None for some in found for line in some):
            return None
        whole = [[line for line in some if line is not None] for some in found]
        size = self.chip.state_buffer.bank_bytes
        for banks in (
            [{line.source // size for line in some} for some in whole],
            [{line.bank for line in some} for some in whole],
        ):
            if sum(map(len, banks)) > len(set[int]().union(*banks)):
                return None
        if any(len({line.source // size for line in some}) > 1 for some in whole):
            return None
        return whole

    def _line(self, number: int) -> _Line | None:
        bank = self.chip.state_buffer.bank_bytes
        starts = list[int]()
        for access, far, at in (
            (self.copy.source, self.lines.source, 1),
            (self.copy.target, self.lines.target, 2),
        ):
            first = access.start + number * far * self.size
            digits = (*self.others, self.side, self.row)
            last = first + sum((digit.size - 1) * digit[at] for digit in digits) * self.size
            if first // bank != (last + self.size - 1) // bank:
                return None
            starts.append(first)
        return _Line(starts[0], starts[1], starts[1] // bank)

    def plans(
        self, lines: Sequence[_Line], number: int
    ) -> Iterator[tuple[int, tuple[_Work, ...], tuple[_Job, ...]]]:
        """Yield the ticks, the work and the jobs of an engine, for each number of copied lines.

        number: of the engine, which has its share of the queues. The lines of one bank come last:
        there an engine is at work while queues copy those of the others.
        """
        share = self.chip.dma.queues // len(self.engines)
        queues = range(number * share, (number + 1) * share)
        banks = [[line for line in lines if line.bank == bank] for bank in _banks(lines)]
        if len(banks) < 2:
            return
        kept, *others = sorted(banks, key=len, reverse=True)
        dealt = [line for row in zip_longest(*others) for line in row if line is not None]
        queue_of = {some[0].bank: queues[n % share] for n, some in enumerate(others)}
        every, last = Span(0, self.row.size), len(dealt)
        full = [_Job(line, every, queue_of[line.bank]) for line in dealt]
        full += [_Job(line, every, queues[(last + n) % share]) for n, line in enumerate(kept)]
        for count, part in product(range(len(full)), range(1, EIGHTHS + 1)):
            some = self.row.size * part // EIGHTHS // 2 * 2
            if some:
                jobs = [*full[:count], full[count]._replace(some=Span(0, some))]
                work = tuple(self._in_order(jobs, [*kept, *dealt]))
                yield self._ticks(work, jobs), work, tuple(jobs)

    def _in_order(self, jobs: Sequence[_Job], rest: Sequence[_Line]) -> Iterator[_Work]:
        """Yield what an engine does: words, lines that no queue copies, and what is left."""
        for n, job in enumerate(jobs):
            yield _Work("words", job.line, job.some, n)
        copied = {job.line: job.some.stop for job in jobs}
        for line in rest:
            first = copied.get(line, 0)
            if first < self.row.size:
                yield _Work("plain", line, Span(first, self.row.size - first))
        for n, job in enumerate(jobs):
            yield _Work("left", job.line, job.some, n)

    def _ticks(self, work: Sequence[_Work], jobs: Sequence[_Job]) -> int:
        """Return about how many ticks an engine's work takes, with that of its queues.

        At the port of a bank an engine comes first.
        """
        chip, engine = self.chip, self.engines[0]
        period, behind = chip.period(engine), chip.engine(engine).latency_cycles + 1
        now, known = 0, list[tuple[int, int, int]]()
        begins, ends = dict[int, int](), dict[int, int]()
        free = dict[int, int]()
        for each in work:
            if each.kind == "left":
                assert each.job is not None
                for n in range(each.job + 1):
                    if n not in ends:
                        job = jobs[n]
                        begin = max(begins[n], free.get(job.queue, 0))
                        begin += chip.dma.latency_cycles * chip.period("dma")
                        ends[n] = free[job.queue] = _beside(
                            known, job.line.bank, begin, self._moving(job)
                        )
                now = max(now, ends[each.job])
            last = now + self._writes(each) * period
            known.append((each.line.bank, now, last))
            now = last
            if each.kind == "words":
                assert each.job is not None
                begins[each.job] = now + behind * period
        return now + behind * period

    def _writes(self, work: _Work) -> int:
        """Return the elements of a lane that an engine writes, a word for one."""
        rows = math.prod(digit.size for digit in (*self.others, self.side)) * work.some.count
        return rows // {"words": 4, "left": 2, "plain": 1}[work.kind]

    def _moving(self, job: _Job) -> int:
        """Return the ticks in which a queue moves the bytes of a job."""
        chip, lanes = self.chip, self.copy.source.partitions
        runs = lanes * math.prod(digit.size for digit in self.others) * self.side.size // 2
        cycles = inside_cycles(chip, runs, (job.some.count - 1) * self.size, lanes)
        return (cycles - chip.dma.latency_cycles) * chip.period("dma")

    def steps(
        self, engine: str, work: Sequence[_Work], jobs: Sequence[_Job]
    ) -> Iterator[WordsStep]:
        """Yield the instructions of an engine and its queues, behind those that they wait for."""
        copied, number = dict[int, int](), 0
        for each in work:
            after = copied.get(each.job) if each.kind == "left" and each.job is not None else None
            yield WordsStep(self._copy(engine, each), after)
            number += 1
            if each.kind == "words" and each.job is not None:
                yield WordsStep(self._row(jobs[each.job]), number - 1)
                copied[each.job] = number
                number += 1

    def _copy(self, engine: str, work: _Work) -> Copy:
        """Return what an engine copies of a line."""
        side, row, first, count = self.side, self.row, work.some.first, work.some.count
        dtype, others = self.copy.source.dtype, self.others
        if work.kind == "words":
            dtype = PAIRS[self.size]
            others = tuple(CopyDigit(d.size, d.source // 2, d.target // 2) for d in others)
            inner = (
                CopyDigit(count // 2, row.source, 1),
                CopyDigit(side.size // 2, 1, side.target),
            )
        elif work.kind == "left":
            first += 1
            inner = CopyDigit(count // 2, 2 * row.source, 2), side
        else:
            inner = CopyDigit(count, row.source, 1), side
        digits = (*others, *inner)
        source = work.line.source + first * row.source * self.size
        target = work.line.target + first * self.size
        return Copy(
            engine=engine,
            source=self._access(dtype, source, [(d.source, d.size) for d in digits]),
            target=self._access(dtype, target, [(d.target, d.size) for d in digits]),
        )

    def _row(self, job: _Job) -> DmaCopy:
        """Return what a queue copies: the rows of words, but for their first elements."""
        first = job.line.target + job.some.first * self.size
        pairs = [(digit.target, digit.size) for digit in self.others]
        pairs += [(2 * self.side.target, self.side.size // 2), (1, job.some.count - 1)]
        dtype, far = self.copy.source.dtype, self.side.target * self.size
        return DmaCopy(
            dma_queue=job.queue,
            source=self._access(dtype, first + self.size, pairs),
            target=self._access(dtype, first + far, pairs),
        )

    def _access(self, dtype: str, start: int, pairs: Sequence[tuple[int, int]]) -> Access:
        assert data_type(dtype).size_bytes in (self.size, 2 * self.size)
        pattern = tuple(pair for pair in pairs if pair[1] > 1) or ((1, 1),)
        return replace(self.copy.source, dtype=dtype, start=start, pattern=pattern)


def _banks(lines: Sequence[_Line]) -> list[int]:
    return sorted({line.bank for line in lines})


def _beside(known: Sequence[tuple[int, int, int]], bank: int, begin: int, ticks: int) -> int:
    """Return when a queue has moved for so many ticks, at a bank that an engine holds at times.

    known: (bank, first tick, tick behind it) of an engine's copies, in their order.
    """
    held = [(first, stop) for there, first, stop in known if there == bank and stop > begin]
    for first, stop in [*held, (begin + ticks, begin + ticks)]:
        if first - begin >= ticks:
            break
        ticks -= max(0, first - begin)
        begin = max(begin, stop)
    return begin + ticks
