"""Races and lost values: writes and reads of a word that are not surely in order.

Instructions are visited in an order in which they can start. Each access of a word is compared with
the nearest ones before it: a read with the last write, a write with the last write and with every
read since. Accesses further back need no comparison. For instance, if write A, write B and read C
of a word are visited in this order, B is compared with A, and C with B: if A surely comes before B,
and B before C, then A comes before C. If A and C are in the wrong order, so is one of the pairs
that were compared, and that pair is reported.

Two more findings: a word is read that nothing has written, and a result is overwritten that nothing
has read. Not here: what is in order (`systolic.isa.lint.order`); programs that are illegal or get
stuck, which have no order to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from systolic.hw.spec import Chip
from systolic.isa.access import Access, Buffer
from systolic.isa.effects import Effects, reads_its_target
from systolic.isa.footprint import uncovered
from systolic.isa.instruction import Instruction, MatMul
from systolic.isa.lint.before import Before
from systolic.isa.lint.diagnostic import BufferBox, Code, Diagnostic, named
from systolic.isa.lint.guarantees import Structure
from systolic.isa.lint.last_accesses import INITIAL, NotedAccess, Shadow, Touched
from systolic.isa.lint.order import Order
from systolic.isa.program import Program

MANY_INSTRUCTIONS = 20_000
"""From this number in a process on, loading numba costs less than it saves."""


def find_hazards(
    program: Program,
    chip: Chip,
    order: Sequence[int],
    effects: Effects,
    inputs: Iterable[Access] | None,
) -> list[Diagnostic]:
    """Return findings on the memory accesses of a legal program that does not get stuck.

    order: an order in which the instructions can start. effects: what they read and write.
    inputs: the accesses to memory that has contents at cycle 0. None if they are not known; reads
    of words never written are then not looked for.
    """
    clocks = Order(Structure.of(program, chip), order)
    before = Before(clocks)
    given = None if inputs is None else tuple(inputs)
    if WORK.is_much(len(program.instructions)):
        is_clean = _proof()
        if is_clean is not None and is_clean(clocks, before, order, effects, given):
            return []
    return _Pass(clocks.structure, before, order, effects, given).run()


def _proof() -> Callable[..., bool] | None:
    """Return what looks for hazards in compiled loops, or None without numba."""
    try:
        from systolic.isa.lint.proof import is_clean
    except ImportError:
        return None
    return is_clean


class Checked:
    """How many instructions have been checked, and from how many on that is much."""

    def __init__(self, many: int) -> None:
        self._many, self._instructions = many, 0

    def is_much(self, instructions: int) -> bool:
        """Return whether, with that many instructions more, it pays to load compiled loops."""
        self._instructions += instructions
        return self._instructions >= self._many


WORK = Checked(MANY_INSTRUCTIONS)


class _Pass:
    """One pass over the instructions."""

    def __init__(
        self,
        structure: Structure,
        before: Before,
        order: Sequence[int],
        effects: Effects,
        inputs: Iterable[Access] | None,
    ) -> None:
        self._instructions = structure.program.instructions
        self._visits = order
        self._structure, self._before = structure, before
        self._shadow = Shadow()
        places_of = self._shadow.places_of
        self._effects = [(places_of(read), places_of(written)) for read, written in effects]
        self._inputs = None if inputs is None else places_of(inputs)
        self._shadow.lay_out()
        self._said: set[tuple[str, int, int]] = set()
        self._found: list[Diagnostic] = []

    def run(self) -> list[Diagnostic]:
        """Return findings in the order of the visits."""
        for place in self._inputs or ():
            self._shadow.add_write(NotedAccess(INITIAL, -1, place))
        for visit, index in enumerate(self._visits):
            read, written = self._effects[index]
            for place in read:
                self._read(index, visit, place)
            for place in written:
                self._write(index, visit, place)
        self._shadow.forget()
        return self._found

    # -- reads ------------------------------------------------------------------------------------

    def _read(self, index: int, visit: int, place: Touched) -> None:
        queue = self._structure.queue_of[index]
        version = self._shadow.version(place)
        seen, record = place.readers.get(queue, (-1, None))
        if seen != version:
            # Unchanged since an earlier read of the same queue: in order for that one and so for
            # this one, which starts later.
            self._check_read(index, place)
        if self._is_own_sum(index, place.access):
            return
        if record and record.live and self._replaces(record, index):
            record.moves_to(index, visit)
        else:
            record = NotedAccess(index, visit, place)
            self._shadow.add_read(record)
        place.readers[queue] = version, record

    def _is_own_sum(self, index: int, access: Access) -> bool:
        """Return whether this is the read of an accumulation, made together with its write."""
        return access.buffer is Buffer.RESULT and isinstance(self._instructions[index], MatMul)

    def _replaces(self, record: NotedAccess, index: int) -> bool:
        """Return whether all that comes after this read comes after the recorded read too."""
        structure = self._structure
        return structure.after_reads_of[record.index] <= structure.position_of[index]

    def _check_read(self, index: int, place: Touched) -> None:
        met, queue = self._shadow.writes_at(place), 1 << self._structure.queue_of[index]
        for record in met:
            if not record.done_for & queue and not self._before.is_written(
                record, index, place, reading=True
            ):
                self._race("read-after-write", record, index, place)
        if self._inputs is None:
            return
        missing = uncovered(place.footprint, [record.place.footprint for record in met])
        if missing:
            self._find(
                "unwritten", f"reads {missing}, which nothing has written", (index,), missing
            )

    # -- writes -----------------------------------------------------------------------------------

    def _write(self, index: int, visit: int, place: Touched) -> None:
        written = self._shadow.writes_at(place)
        read = [r for r in self._shadow.reads_at(place) if r.index != index]
        queue = 1 << self._structure.queue_of[index]
        for record in written:
            if record.done_for & queue:
                continue
            if self._before.is_written(record, index, place, reading=False):
                self._before.link(record, index)
            else:
                self._race("write-after-write", record, index, place)
        for record in read:
            if not record.done_for & queue and not self._before.is_read(record, index, place):
                self._race("write-after-read", record, index, place)
        if place.access.buffer is Buffer.RESULT:
            self._undrained(index, place, written, read)
        self._shadow.add_write(NotedAccess(index, visit, place), (*written, *read))

    def _undrained(
        self, index: int, place: Touched, written: list[NotedAccess], read: list[NotedAccess]
    ) -> None:
        if reads_its_target(self._instructions[index]):
            return
        for record in written:
            if record.index == INITIAL:
                continue
            later = [r.place.footprint for r in (*read, *written) if r.visit > record.visit]
            missing = uncovered(place.footprint, later, within=[record.place.footprint])
            if missing:
                message = f"overwrites {missing}, {self._named(record.index)}'s result, unread"
                self._find("undrained", message, (index, record.index), missing)

    # -- findings ---------------------------------------------------------------------------------

    def _race(self, code: Code, record: NotedAccess, index: int, place: Touched) -> None:
        key = (code, record.index, index)
        if key in self._said:
            return
        self._said.add(key)
        does, did = {
            "read-after-write": ("reads", "write"),
            "write-after-write": ("writes", "write"),
            "write-after-read": ("writes", "read"),
        }[code]
        region = record.place.footprint.shared_box(place.footprint)
        message = f"{does} {region}, and nothing makes {self._named(record.index)} {did} it before"
        self._find(code, message, (index, record.index), region)

    def _named(self, index: int) -> str:
        return named(index, self._instructions[index])

    def _find(self, code: Code, message: str, indices: tuple[int, ...], region: BufferBox) -> None:
        text = f"{self._named(indices[0])} {message}"
        involved = _involved(self._instructions, indices)
        self._found.append(Diagnostic(code, "error", text, involved, region))


def _involved(
    instructions: Sequence[Instruction], indices: tuple[int, ...]
) -> tuple[tuple[int, str], ...]:
    return tuple((i, type(instructions[i]).__name__) for i in indices)
