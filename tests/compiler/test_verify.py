"""Is a broken pass found at its own door? Each case breaks one rule in what a pass hands on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.chips import ideal_chip
from systolic.compiler import compile_graph, pipeline
from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.ir.dependencies import Ref
from systolic.compiler.ir.drafts import Draft
from systolic.compiler.ir.nodes import (
    NODE_KINDS,
    BounceNode,
    Layers,
    Lies,
    Matrix,
    MoveNode,
    RepeatNode,
    Source,
    for_every_kind,
)
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.lower.table import lower_graph
from systolic.compiler.lower.verify import verify_layers
from systolic.compiler.place.verify import verify_places
from systolic.compiler.schedule.verify import verify_drafts
from systolic.compiler.sync.verify import verify_synchronised
from systolic.compiler.tile.verify import verify_tiled
from systolic.isa import Access, Buffer, Memset, Post, Program, Wait, lint
from systolic.workload import GraphBuilder
from systolic.workload.options import Options

CHIP = ideal_chip(4, 4)


def compile_all(home: str = "dram"):
    """A turned operand, products in several K-tiles, a conversion, a move; stores."""
    builder = GraphBuilder(home)
    x = builder.tensor("x", "bf16[12,10]")
    w = builder.tensor("w", "bf16[10,8]")
    y = builder.matmul(x, w, "f16[12,8]", name="y")
    builder.add("cast", (y,), "bf16[12,8]{0,1}", name="z")
    return compile_graph("test", builder.graph(), CHIP, verify=True)


COMPILED = compile_all()
LAYERS, TILED, SCHEDULED = COMPILED.layers, COMPILED.tiled, COMPILED.scheduled
DRAFTS, PROGRAM = SCHEDULED.drafts, COMPILED.program


def node_of(kind: str) -> int:
    return next(n for n, node in enumerate(LAYERS.nodes) if node.word() == kind)


def with_node(number: int, **changes) -> Layers:
    nodes = list(LAYERS.nodes)
    nodes[number] = replace(nodes[number], **changes)
    return replace(LAYERS, nodes=tuple(nodes))


def changed(matrix: Matrix, **changes) -> Matrix:
    """Return a matrix with other fields, or another batch, number of rows or of columns."""
    sizes = {"batch": matrix.batch, "rows": matrix.rows, "cols": matrix.cols}
    sizes |= {name: changes.pop(name) for name in sizes.keys() & changes.keys()}
    return replace(matrix, dims=(*sizes["batch"], sizes["rows"], sizes["cols"]), **changes)


def with_matrix(which: str, **changes) -> Layers:
    matrices = [changed(m, **changes) if m.name == which else m for m in LAYERS.matrices]
    return replace(LAYERS, matrices=tuple(matrices))


def broken(pass_name: str, words: str):
    return pytest.raises(BrokenPassError, match=f"compiler pass {pass_name}: .*{words}")


@pytest.mark.parametrize(
    "verifier",
    [verify_layers, verify_tiled, verify_places, verify_drafts, verify_synchronised],
    ids=lambda verifier: verifier.__name__,
)
def test_the_pipeline_asks_the_verifier_of_each_pass(verifier, monkeypatch):
    def refuse(*values, **settings):
        raise BrokenPassError("any", "refused")

    monkeypatch.setattr(pipeline, verifier.__name__, refuse)
    with broken("any", "refused"):
        compile_all()


# lower

PRODUCT, STORE = (LAYERS.nodes[node_of(kind)] for kind in ("multiply", "store"))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (with_node(0, inputs=("nobody",)), "no matrix nobody"),
        (replace(LAYERS, nodes=LAYERS.nodes[::-1]), "read before a node makes it"),
        (replace(LAYERS, nodes=(LAYERS.nodes[0], *LAYERS.nodes)), "there already"),
        (replace(LAYERS, dram=()), "DRAM does not have"),
        (with_matrix(PRODUCT.inputs[0], rows=9), "K is 9 in"),
        (with_matrix(PRODUCT.output, cols=5), "not 8 x 12|not 12 x 8"),
        (with_matrix(PRODUCT.output, batch=(2,)), r"batches \(\) and \(\) do not make"),
        (
            with_node(node_of("store"), axes=LAYERS.nodes[node_of("store")].axes[::-1]),
            "store.*is .* not",
        ),
        (with_matrix(LAYERS.nodes[node_of("convert")].output, rows=7), "not"),
        (with_matrix(LAYERS.matrices[1].name, name=LAYERS.matrices[0].name), "have one name"),
    ],
)
def test_lower(layers, words):
    verify_layers(LAYERS)
    with broken("lower", words):
        verify_layers(layers)


def test_lower_turns_what_it_turns_and_brings_what_is_stored():
    turn = LAYERS.nodes[node_of("turn")]
    with broken("lower", "not the transpose of"):
        verify_layers(with_matrix(turn.output, rows=99))
    with broken("lower", "bf16 becomes f16|f32 becomes f16"):
        verify_layers(with_matrix(turn.output, dtype="f16"))
    early = with_matrix(LAYERS.nodes[0].inputs[0], source=Source("dram", STORE.dram))
    with broken("lower", f"is brought before {STORE.dram} is stored"):
        verify_layers(early)


def test_lower_moves_and_keeps():
    builder = GraphBuilder("state_buffer")
    builder.add("reshape", (builder.tensor("x", "f32[6,4]"),), "f32[8,3]", name="y")
    layers = lower_graph(builder.graph(), CHIP, Options())
    (move,) = (n for n, node in enumerate(layers.nodes) if isinstance(node, MoveNode))
    nodes = list(layers.nodes)
    change = layers.nodes[move].change
    nodes[move] = replace(layers.nodes[move], change=replace(change, target=change.source))
    with broken("lower", "as its change of view has it"):
        verify_layers(replace(layers, nodes=tuple(nodes)))
    matrices = tuple(matrix.lying(keep=False) for matrix in layers.matrices)
    with broken("lower", "y is kept as .* not marked"):
        verify_layers(replace(layers, matrices=matrices))


def spread_layers() -> Layers:
    """Return the layers of a - b with a number of b for each column of a."""
    builder = GraphBuilder("state_buffer")
    a, b = builder.tensor("a", "f32[9,7]"), builder.tensor("b", "f32[7]")
    builder.add("binary", (a, b), "f32[9,7]", operator="subtract", broadcast_dimensions=[1],
                name="y")  # fmt: skip
    return compile_graph("test", builder.graph(), CHIP, verify=True).layers


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cols": 6}, "the row of b"),
        ({"batch": (2,)}, "the row of b"),
        ({"lies": Lies()}, "not .* as b"),
    ],
)
def test_lower_spreads_operands(changes, words):
    layers = spread_layers()
    (repeat,) = (node for node in layers.nodes if isinstance(node, RepeatNode))
    matrices = [changed(m, **changes) if m.name == repeat.output else m for m in layers.matrices]
    with broken("lower", words):
        verify_layers(replace(layers, matrices=tuple(matrices)))


# tile


def task_of(kind: str, number: int = 0) -> int:
    return [n for n, task in enumerate(TILED.tasks) if task.kind.word() == kind][number]


def with_task(number: int, **changes):
    tasks = list(TILED.tasks)
    tasks[number] = replace(tasks[number], **changes)
    return replace(TILED, tasks=tuple(tasks))


def without(number: int):
    return replace(TILED, tasks=TILED.tasks[:number] + TILED.tasks[number + 1 :])


def elsewhere(task: Task) -> tuple[MatrixTile, ...]:
    return (task.reads[0]._replace(row=99), *task.reads[1:])


MULTIPLY = task_of("multiply")


@pytest.mark.parametrize(
    ("tiled", "words"),
    [
        (with_task(0, node=99), "node 99 is None"),
        (with_task(0, kind=BounceNode), "bounce: node 0 is"),
        (with_task(0, reads=elsewhere(TILED.tasks[0])), "is no tile of"),
        (without(task_of("turn")), "read before they are written"),
        (with_task(task_of("turn", 1), writes=()), "which the task does not name"),
        (replace(TILED, tasks=TILED.tasks[:1] + TILED.tasks), "written twice"),
        (without(MULTIPLY), "sums begin before|go on without"),
        (without(MULTIPLY + 1), "come behind"),
        (with_task(MULTIPLY + 1, cols=()), "come behind 4"),
        (with_task(MULTIPLY + 1, first=True), "sums begin twice"),
        (without(task_of("convert")), "read before they are written"),
        (without(task_of("store")), "tiles of .* are stored"),
        (replace(TILED, tasks=(*TILED.tasks, TILED.tasks[task_of("store")])), "is stored twice"),
        (replace(TILED, tasks=TILED.tasks[: MULTIPLY + 1]), "begun and not ended"),
        (replace(TILED, tasks=TILED.tasks[:1]), "are not written"),
    ],
)
def test_tile(tiled, words):
    verify_tiled(TILED, LAYERS)
    with broken("tile", words):
        verify_tiled(tiled, LAYERS)


# place


def places(stays, chip=CHIP, fixed=SCHEDULED.identities):
    verify_places(stays, fixed, TILED.tasks, chip)


def with_stay(number: int, **changes):
    stays = list(SCHEDULED.stays)
    stays[number] = replace(stays[number], **changes)
    return stays


def neighbours() -> tuple[int, int]:
    """Return two stays that overlap in time and are not used by one task."""
    stays = SCHEDULED.stays
    return next(
        (a, b) for a in range(len(stays)) for b in range(len(stays))
        if a != b and stays[a].first_task < stays[b].last_task
        and stays[b].first_task < stays[a].last_task
    )  # fmt: skip


def test_place():
    stays = SCHEDULED.stays
    places(stays)
    with broken("place", "lies in bytes"):
        places(with_stay(0, start=CHIP.state_buffer.bytes_per_partition))
    one, other = neighbours()
    with broken("place", "share bytes in task|in the same bytes"):
        places(with_stay(one, start=stays[other].start))
    with broken("place", "in the bytes of an identity"):
        places(with_stay(0, start=SCHEDULED.identities[0].start))
    with broken("place", "which is not in the state buffer"):
        places(stays[1:])
    task = TILED.tasks[0]
    here = [n for n, s in enumerate(stays) if s.tile in (*task.reads, *task.writes)]
    moved = with_stay(here[0], start=stays[here[1]].start, first_task=0, last_task=0)
    with broken("place", "in the same bytes"):
        places(moved)
    top = ideal_chip(4, 4, pe_array={"weight_path": "top"})
    bank = top.state_buffer.bank_bytes
    with broken("place", f"across two banks of {bank} bytes"):
        places(with_stay(0, start=bank - 4, size_bytes=8), top)


# schedule


def with_draft(number: int, **changes):
    drafts = list(DRAFTS)
    drafts[number] = replace(drafts[number], **changes)
    return drafts


def dependent(data: bool) -> int:
    """Return a draft that needs one for what it reads (data) or only for what it overwrites."""
    return next(n for n, d in enumerate(DRAFTS) if d.needs and bool(d.data) == data)


def test_schedule():
    verify_drafts(DRAFTS, CHIP)
    last = len(DRAFTS) - 1
    step = dependent(data=True)
    with broken("schedule", f"depends on {last}, which does not come before"):
        verify_drafts(with_draft(step, needs=(Ref(last, "dma0", ("dma0",)),)), CHIP)
    with broken("schedule", "does not post elsewhere"):
        wrong = DRAFTS[step].needs[0]._replace(key=("elsewhere",))
        verify_drafts(with_draft(step, needs=(wrong,)), CHIP)
    with broken("schedule", "has no part 99"):
        verify_drafts(with_draft(step, needs=(DRAFTS[step].needs[0]._replace(part=99),)), CHIP)
    store = DRAFTS[last].instruction
    outside = replace(store.source, start=1 << 30)
    with broken("schedule", "illegal: .*source"):
        verify_drafts(with_draft(last, instruction=replace(store, source=outside)), CHIP)
    with broken("schedule", "illegal: .*99"):
        verify_drafts(with_draft(last, instruction=replace(store, dma_queue=99)), CHIP)


def test_schedule_without_the_dependencies_of_a_draft():
    """Every kind of race is found, whichever draft it is that does not wait."""
    found = {fault(with_draft(n, needs=(), data=0)) for n, d in enumerate(DRAFTS) if d.needs}
    assert found - {""} == {"read-after-write", "write-after-read"}
    target = Access(Buffer.STATE, "f32", 0, 1, 0, ((1, 4),))
    both = [Memset(engine=engine, target=target, value=0) for engine in ("activation", "pooling")]
    assert fault([Draft(each, "", (), (), 0) for each in both]) == "write-after-write"


def fault(drafts: list[Draft]) -> str:
    """Return what the verifier finds first; "" if nothing, since others make a draft wait."""
    try:
        verify_drafts(drafts, CHIP)
    except BrokenPassError as error:
        return str(error).split(": ")[1]
    return ""


# sync


def with_instruction(number: int, **changes):
    instructions = list(PROGRAM.instructions)
    instructions[number] = replace(instructions[number], **changes)
    return replace(PROGRAM, instructions=tuple(instructions))


WAITING = [n for n, i in enumerate(PROGRAM.instructions) if i.waits]


def test_sync_without_the_waits_of_an_instruction():
    """Each is missed, but for those that follow from others: the checker does not miss them."""
    verify_synchronised(DRAFTS, PROGRAM, CHIP)
    missed = 0
    for step in WAITING:
        program = with_instruction(step, waits=())
        try:
            verify_synchronised(DRAFTS, program, CHIP)
        except BrokenPassError as error:
            missed += f"instruction {step}" in str(error) and "nothing makes it wait" in str(error)
        else:
            assert not [d for d in lint(program, CHIP) if d.severity == "error"]
    assert missed > len(WAITING) // 2


def test_sync_counts():
    step = WAITING[0]
    (wait, *_) = PROGRAM.instructions[step].waits
    with broken("sync", "too many"):
        verify_synchronised(DRAFTS, with_instruction(step, waits=(Wait(wait.semaphore, 99),)), CHIP)
    with broken("sync", "drafts, .* steps"):
        verify_synchronised(DRAFTS[1:], PROGRAM, CHIP)


def test_sync_posts_in_order():
    """Two engines post one semaphore; a count of one does not say which of them has."""
    accesses = [Access(Buffer.STATE, "f32", 0, 1, 64 * n, ((1, 4),)) for n in range(3)]
    engines = ("activation", "pooling", "activation")
    fill = [Memset(engine=e, target=a, value=0) for e, a in zip(engines, accesses, strict=True)]
    keys = ("written", "sb0", "both")
    needs = (Ref(0, "activation", keys),)
    drafts = [Draft(each, "", needs * (n == 2), (keys,), 0) for n, each in enumerate(fill)]
    posting = [replace(fill[n], posts=(Post(0),)) for n in (0, 1)]
    waiting = replace(fill[2], waits=(Wait(0, 1),))
    program = Program("test", (*posting, waiting), ("written sb0 both",))
    with broken("sync", "may post"):
        verify_synchronised(drafts, program, CHIP)


def test_a_kind_of_node_without_a_row_fails_at_import():
    rows = dict.fromkeys(NODE_KINDS, "done")
    assert for_every_kind(rows) == rows
    del rows[BounceNode]
    with pytest.raises(KeyError, match="no row for node kind bounce"):
        for_every_kind(rows)
