"""The way of a move from DRAM to DRAM in words that the array turns, where it passes bits on.

Elements of the source that lie side by side are a word, of the widest type that passes through the
array. So narrow elements need no cast, and few results are copied out: then words lie in the
partitions of the result, and engines put their elements in order there, lane by lane. Not here: the
other ways (`ways`), relays on the chip (`word_relays`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from systolic.compiler.cost.arrangements import Estimate, Planner
from systolic.compiler.cost.word_turns import WordsTurned, words_turned
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.windows import MatrixWindow, WordWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.candidates import turned


def on_words(planner: Planner, move: Move) -> Iterator[Arrangement]:
    """Yield the arrangements in which the array turns words of the source."""
    chip, plain = planner.chip, replace(move, spaced=1, gaps=())
    many = words_turned(chip, move.dtype)
    minor = next((n for n, step in enumerate(plain.before.steps) if step == 1), None)
    if many is None or minor is None or not planner.can_copy(move.dtype):
        return
    if plain.sizes[minor] % many.elements:
        return
    if plain.sizes[minor] > many.elements:
        plain = plain.cut(minor, many.elements)
    array, lanes = chip.pe_array, chip.state_buffer.partitions
    sides = min(array.rows, lanes, chip.result_buffer.bank_words), min(array.cols, lanes)
    finely = chip.dram.organisation is None
    for plan in turned(plain, *sides, either_end=finely, finely=finely and planner.alone):
        if many.word(plan) is not None and many.reaches(plan):
            yield plan


def words_work(planner: Planner, plan: Arrangement) -> int:
    """Return the ticks in which the array turns all words, and engines copy and order them."""
    many = words_turned(planner.chip, plan.move.dtype)
    assert many is not None
    return many.ticks(planner, plan)


def words_estimate(planner: Planner, plan: Arrangement, work: int) -> Estimate:
    """Return the estimate for tiles of words; work: the ticks between loads and stores."""
    many = words_turned(planner.chip, plan.move.dtype)
    assert many is not None
    return many.estimate(planner, plan, work)


def words_instructions(planner: Planner, plan: Arrangement) -> int:
    """Return how many instructions there are for a tile."""
    many = words_turned(planner.chip, plan.move.dtype)
    assert many is not None
    _, apart = many.ordered(plan)
    return 3 * plan.count(plan.rest) // many.elements + plan.count(apart)


def emit_words(
    builder: LayerBuilder, planner: Planner, plan: Arrangement, ends: tuple[Matrix, Matrix]
) -> None:
    """Add the nodes between the tiles that are brought and those that are stored."""
    many = words_turned(planner.chip, plan.move.dtype)
    assert many is not None
    before, after = ends
    word = many.word(plan)
    groups, sizes = plan.groups, plan.move.sizes
    between = builder.place_matrix(
        plan.move.result,
        (*groups, plan.rows_out, many.between(plan)),
        after.tensor,
        shared=planner.shared(plan),
    )
    batch: Axes = (*groups, *((n,) for n in plan.rest if n != word))
    few = tuple(1 if n == word else size for n, size in enumerate(sizes))
    views = (
        (before, (*batch, plan.rows_in, plan.rows_out)),
        (between, (*batch, plan.rows_out, plan.rows_in)),
    )
    source, made = (_words(builder, many, held, sizes, Spread(few, axes)) for held, axes in views)
    builder.node("turn", (source,), made)
    together, apart = many.ordered(plan)
    axes = (*groups, *((n,) for n in apart), plan.rows_out, together)
    taken, put = (
        builder.within(held, MatrixWindow(held.name, Spread(sizes, held.axes), Spread(sizes, axes)))
        for held in (between, after)
    )
    builder.node("convert", (taken,), put)


def _words(
    builder: LayerBuilder, many: WordsTurned, held: Matrix, sizes: tuple[int, ...], inner: Spread
) -> Matrix:
    """Return words of a holder as a matrix; inner: of their first elements."""
    window = MatrixWindow(held.name, Spread(sizes, held.axes), inner)
    found = builder.within(held, window)
    seen = WordWindow(many.elements, many.dtype, window)
    return builder.add(replace(found, dtype=many.dtype, window=seen))
