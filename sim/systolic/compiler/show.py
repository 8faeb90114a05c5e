"""The results of the passes as text, for `systolic compile --after`. Nothing is printed here.

Long lists are cut after `limit` lines; a last line says how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from systolic.compiler.compiled import CompiledGraph
from systolic.compiler.ir.nodes import Matrix, MultiplyNode
from systolic.compiler.ir.tasks import Loops, Task, tiling
from systolic.isa import Access, Buffer, Instruction, Program
from systolic.isa.effects import accumulates, writes
from systolic.isa.opcodes import BY_CLASS
from systolic.layout import Shape

LIMIT = 24


def show_lower(compiled: CompiledGraph, limit: int = LIMIT) -> Iterator[str]:
    """Yield layers, their nodes and connections, places in DRAM, and the choices made."""
    layers = compiled.layers
    for op in compiled.graph.operations:
        shapes = [str(compiled.graph.shape(name)) for name in op.inputs]
        yield f"layer {op.name}: {compiled.graph.shape(op.output)} = {op.kind}({', '.join(shapes)})"
        yield from (f"  node {node}" for node in layers.nodes if node.layer == op.name)
    if layers.matrices:
        yield "matrices (rows lie on partitions)"
    yield from _cut([f"  {_matrix(m)}" for m in layers.matrices], limit)
    for place in layers.dram:
        yield f"dram {place.base}: {place.name} = {_in_dram(place.shape)}, {place.size_bytes} bytes"
    yield from (f"choice {text}" for text in layers.choices)


def _in_dram(shape: Shape) -> str:
    """Return the shape's text, and its legacy padding, which that text cannot express."""
    if not isinstance(shape, Shape):
        return str(shape)
    widths = shape.layout.padded_dimensions
    return str(shape) if widths is None else f"{shape} padded to [{','.join(map(str, widths))}]"


def _matrix(matrix: Matrix) -> str:
    blocks = f", blocks {tiling(matrix, matrix.block).tiled}" if matrix.block else ""
    return f"{matrix}{blocks}{', kept' if matrix.lies.keep else ''}"


def show_tile(compiled: CompiledGraph, limit: int = LIMIT) -> Iterator[str]:
    """Yield the tiling, the loops, the tasks, and how many dependencies there are of each kind."""
    if compiled.streamed is not None:
        yield from (f"stream {text}" for text in compiled.streamed.choices)
        saving = compiled.saving
        yield f"between units {saving.data} data and {saving.memory} memory dependencies"
        return
    tiled, layers = compiled.tiled, compiled.layers
    p, q = tiled.block
    if not all(matrix.block for matrix in layers.matrices):
        yield f"tiles T({p},{q}): {p} partitions, up to {q} columns"
    if blocks := compiled.blocks:
        p, q = blocks.block
        yield f"equation 1: {blocks.count} blocks of {p} x {q}, {blocks.tiled}"
    for number, loops in tiled.loops:
        tiles, chunks = loops.group
        yield (
            f"loops of {layers.nodes[number].output}: {tiles} stationary tiles x {chunks} chunks "
            f"of {loops.chunk} vectors accumulate together; {loops.outer} outermost; about "
            f"{loops.estimate} cycles{_by_rows(loops)}"
        )
    if compiled.plan.room_bytes < compiled.chip.state_buffer.bytes_per_partition:
        yield f"planned as for {compiled.plan.room_bytes} bytes of a partition"
    if compiled.plan.cycles:
        yield f"the best of several plans, about {compiled.plan.cycles} cycles"
    saving = compiled.saving
    order = sum(
        max(0, n - 1) for n in Counter(i.queue for i in compiled.program.instructions).values()
    )
    yield (
        f"data flow: {len(tiled.tasks)} tasks; between units {saving.data} data and "
        f"{saving.memory} memory dependencies, in the queues {order} of operation"
    )
    yield from _cut([f"  {n}: {_task(task)}" for n, task in enumerate(tiled.tasks)], limit)


def _by_rows(loops: Loops) -> str:
    if not loops.by_rows:
        return ""
    return f"; the first {loops.by_rows} stationary tiles go row by row of what engines make"


def _task(task: Task) -> str:
    reads, writes = " ".join(map(str, task.reads)), " ".join(map(str, task.writes))
    where = f" -> {writes}" if writes else ""
    if task.kind is not MultiplyNode:
        return f"{task.kind.word()} {reads}{where}"
    if not task.rows:
        return f"multiply nothing{where}, which is filled"
    (rows,) = task.rows
    sums = "begin" if task.first else "add to"
    return f"multiply rows {rows.first}:{rows.stop} of {reads}, {sums} sums{where}"


def show_place(compiled: CompiledGraph, limit: int = LIMIT) -> Iterator[str]:
    """Yield each tile's places and times, the fullest moment, and the bytes that were spilled."""
    if compiled.streamed is not None:
        yield from _places_of_streams(compiled.program, limit)
        yield f"dram: {compiled.scheduled.dram_bytes} bytes"
        return
    stays = sorted(compiled.scheduled.stays, key=lambda s: (s.first_task, s.start))
    peak = 0
    for task in sorted({s.first_task for s in stays}):
        peak = max(peak, sum(s.size_bytes for s in stays if s.first_task <= task <= s.last_task))
    asked = sum(s.size_bytes for s in stays)
    yield (
        f"state buffer: at most {peak} bytes of a partition in use; {asked} without reuse; "
        f"{compiled.scheduled.spilled_bytes} bytes spilled to DRAM"
    )
    yield f"dram: {compiled.scheduled.dram_bytes} bytes"
    for name, placed in compiled.placements().items():
        place = f"partition {placed.base_partition}, byte {placed.base_byte}"
        yield f"on chip: {name} = {placed.shape}, {place}"
    yield from _cut(
        [
            f"  bytes {s.start}:{s.start + s.size_bytes} {s.tile}, tasks {s.first_task} to "
            f"{s.last_task}"
            for s in stays
        ],
        limit,
    )


def _places_of_streams(program: Program, limit: int) -> Iterator[str]:
    """Yield the bytes of the state buffer that instructions write, in their order."""
    found = dict.fromkeys(
        (access.lanes, access.span, access.dtype)
        for instruction in program.instructions
        for access in writes(instruction)
        if access.buffer is Buffer.STATE
    )
    yield f"state buffer: {len(found)} places are written"
    lines = [
        f"  bytes {span.first}:{span.stop} of partitions {lanes.first}:{lanes.stop}, {dtype}"
        for lanes, span, dtype in found
    ]
    yield from _cut(lines, limit)


def show_schedule(compiled: CompiledGraph, limit: int = LIMIT) -> Iterator[str]:
    """Yield each queue with its first instructions, before synchronisation."""
    drafts = compiled.scheduled.drafts
    queues: dict[str, list[int]] = {}
    for step, draft in enumerate(drafts):
        queues.setdefault(draft.instruction.queue, []).append(step)
    each = max(2, limit // max(1, len(queues)))
    for queue, steps in sorted(queues.items()):
        yield f"{queue}: {len(steps)} instructions"
        lines = []
        for step in steps:
            after = " ".join(str(ref.step) for ref in drafts[step].needs)
            lines.append(
                f"  {step}: {_instruction(drafts[step].instruction)}"
                + (f"   after {after}" if after else "")
            )
        yield from _cut(lines, each)


def show_sync(compiled: CompiledGraph, limit: int = LIMIT) -> Iterator[str]:
    """Yield how many dependencies became waits, and the program."""
    saving = compiled.saving
    yield (
        f"{saving.data + saving.memory} dependencies between units: {saving.waits} waits after "
        f"merging, {saving.waits - saving.kept} of them follow from others, {saving.kept} remain"
    )
    yield (
        f"{saving.asked_posts} posts asked for, {saving.asked_posts - saving.posts} of them follow "
        f"from others or are not waited for, {saving.posts} remain; {saving.semaphores} semaphores"
    )
    yield from _program(compiled.program, limit)


def _program(program: Program, limit: int) -> Iterator[str]:
    lines = []
    for number, instruction in enumerate(program.instructions):
        waits = "".join(f" wait {w.semaphore}>={w.value}" for w in instruction.waits)
        posts = "".join(f" post {p.semaphore}@{p.on}" for p in instruction.posts)
        lines.append(f"  {number}: {_instruction(instruction)}{waits}{posts}")
    yield from _cut(lines, limit)


def _instruction(instruction: Instruction) -> str:
    parts = [type(instruction).__name__]
    for field in BY_CLASS[type(instruction)].fields:
        value = getattr(instruction, field.name)
        if isinstance(value, Access):
            parts.append(f"{field.name}={value}")
    if accumulates(instruction):
        parts.append("accumulate")
    return " ".join(parts)


def _cut(lines: Sequence[str], limit: int) -> Iterator[str]:
    yield from lines[:limit]
    if len(lines) > limit:
        yield f"  ... {len(lines) - limit} more of {len(lines)}"


def _by_parts(
    show: Callable[[CompiledGraph, int], Iterator[str]],
) -> Callable[[CompiledGraph, int], Iterator[str]]:
    """Return a function that shows a graph in parts part by part, equal ones once."""

    def shown(compiled: CompiledGraph, limit: int = LIMIT) -> Iterator[str]:
        if not compiled.parts:
            yield from show(compiled, limit)
            return
        known: dict[int, int] = {}
        for number, part in enumerate(compiled.placed):
            what = ", ".join(dict.fromkeys(part.layers.values()))
            equal = known.setdefault(id(part.compiled), number)
            again = f", as part {equal}" if equal != number else ""
            yield f"part {number}: {what}, instructions {part.first}:{part.stop}{again}"
            if not again:
                yield from (f"  {line}" for line in show(part.compiled, limit))

    return shown


PASSES: dict[str, Callable[[CompiledGraph, int], Iterator[str]]] = {
    "lower": _by_parts(show_lower),
    "tile": _by_parts(show_tile),
    "place": _by_parts(show_place),
    "schedule": _by_parts(show_schedule),
    "sync": show_sync,
}

OLD_NAMES = {"graph": "lower"}
"""Passes that had another name, still accepted."""
