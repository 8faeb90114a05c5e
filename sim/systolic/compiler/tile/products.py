"""Products are cut: which sums grow side by side, and in which order.

The last sums of a product are made one by one and copied out in parts, so that little is left to do
after the last vector. Not here: the loops themselves (`cost.products`), and products that load what
others stream (`loaded_pixels`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from systolic.compiler.cost.engines import some_engine_fills
from systolic.compiler.cost.products import ProductToCut, choose_loops, part_of_last, turning_banks
from systolic.compiler.ir.nodes import Layers, Matrix, MultiplyNode, PoolNode, operand_number
from systolic.compiler.ir.on_chip.chip_tiles import k_tiles
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import Loops, Task
from systolic.compiler.tile.late_rows import LateRows
from systolic.compiler.tile.masks import taken_columns
from systolic.compiler.tile.order import TaskOrder
from systolic.compiler.tile.tiles import Tiles
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Select
from systolic.spans import Span
from systolic.workload.options import Options

MOST_LEAD = 3
"""The most sweeps of a batch by which a turn precedes its use: turns take banks of sums."""


class ProductCutter:
    """Cuts products one after another. loops: of each product, by the number of its node."""

    def __init__(
        self,
        layers: Layers,
        chip: Chip,
        options: Options,
        room_bytes: int,
        growing: tuple[Tiles, TaskOrder],
    ) -> None:
        """Begin with no loops.

        room_bytes: the bytes of each partition of the state buffer to plan with. growing: the tiles
        of all matrices, and the order so far.
        """
        self._layers, self._chip, self._options = layers, chip, options
        self._room_bytes = room_bytes
        self._tiles, self._order = growing
        self._matrices, self._block = self._tiles.matrices, self._tiles.block
        self.loops: list[tuple[int, Loops]] = []
        self._loaded: set[str] = set()
        self._brought = 0.0
        self._late_rows = LateRows(layers, chip, room_bytes)
        self._last_product = max(
            (number for number, node in enumerate(layers.nodes) if isinstance(node, MultiplyNode)),
            default=-1,
        )
        self._pooled = {
            self._matrices[node.inputs[0]].holder
            for node in layers.nodes
            if isinstance(node, PoolNode) and node.pooled.is_large(chip.multiply_vectors)
        }

    def cut(self, number: int, node: MultiplyNode) -> None:
        """Cut a product: group by group, inside it K-tile by K-tile."""
        a, b = (self._matrices[name] for name in node.inputs[:2])
        out = self._matrices[node.output]
        p, q = self._block
        cols = list(spans(0, a.cols, p, min(p, self._chip.pe_array.cols)))
        chunk = min(b.cols, q, self._chip.multiply_vectors)
        moving = self._chunks(b, out, chunk)
        chunk = max(span.count for span in moving)
        loops, ahead, banks = self._choose(node, (a, b, out), (len(cols), len(moving)), chunk)
        by_rows = 0 if self._options.of(node.layer).group else self._late_rows.columns(node)
        loops = replace(loops, by_rows=by_rows)
        self.loops.append((number, loops))
        if node.diagonal is not None:  # each block of channels has rows of its own
            loops = replace(loops, group=(1, loops.group[1]))
        groups = list(_groups(cols, moving, loops))
        if by_rows:
            groups = [*_row_by_row(cols[:by_rows], b, p), *_groups(cols[by_rows:], moving, loops)]
        if isinstance(b.window, PixelWindow):
            self._order.defer(
                [
                    list(self._sweep(number, node, (a, b, out), matrix, sums))
                    for matrix in range(out.matrices)
                    for sums in groups
                ],
                ahead=True,
                images=out.name,
            )
            return
        if node.step.cls is Select and some_engine_fills(self._chip):
            self._cut_masked(number, node, (a, b, out), groups, ahead)
            return
        sweeps = list[list[Task]]()
        arrives = self._taken_as_it_arrives((a, b))
        ends = not self._late_rows.flows or number == self._last_product
        for matrix in range(out.matrices):
            alone = arrives and out.matrices * len(groups) == 1
            is_last = matrix == out.matrices - 1 and not alone
            last = groups[-1:]
            if is_last:
                last = self._last_sums((a, b), groups[-1], banks, ends=ends)
            sweeps += [
                list(self._sweep(number, node, (a, b, out), matrix, sums))
                for sums in [*groups[:-1], *last]
            ]
        lead = self._lead((a, b, out), loops)
        for place, tasks in enumerate(sweeps):
            for soon in sweeps[place + 1 : place + 1 + lead]:
                self._turn_soon(tasks[0], soon)
            self._order.add_sums(tasks, ahead)

    def _cut_masked(
        self,
        number: int,
        node: MultiplyNode,
        matrices: tuple[Matrix, Matrix, Matrix],
        groups: Sequence[tuple[Sequence[Span], Sequence[Span]]],
        ahead: int,
    ) -> None:
        """Cut a product from which a select takes some tiles only; the others are filled."""
        step, p = node.step, self._block[0]
        for matrix in range(matrices[2].matrices):
            for col, others in ((col, others) for some, others in groups for col in some):
                parts = [taken_columns(step, col, moving, p) for moving in others]
                taken = [part for each, _ in parts for part in each]
                if taken:
                    sweep = self._sweep(number, node, matrices, matrix, ([col], taken))
                    self._order.add_sums(list(sweep), ahead)
                for rest in (part for _, each in parts for part in each):
                    tile = self._tiles.holding(matrices[2], matrix, col.first, rest.first)
                    fill = Task(MultiplyNode, number, (), (tile,), matrix, (), (col,), (rest,))
                    self._order.add(fill)

    def _chunks(self, moving: Matrix, out: Matrix, most: int) -> list[Span]:
        """Return the columns of each multiply."""
        if isinstance(moving.window, PixelWindow):
            assert out.block is not None
            most = self._chip.multiply_vectors
            return moving.window.pixels.chunks(moving.cols, out.block[1], most)
        return list(spans(0, moving.cols, self._block[1], most))

    def _turn_soon(self, now: Task, soon: Sequence[Task]) -> None:
        """Add the turns of a later sweep behind those for which the next task waits.

        The array then multiplies while what it has turned is copied out.
        """
        self._order.prepare(now)
        for task in soon:
            self._order.prepare(task)

    def _lead(self, matrices: tuple[Matrix, Matrix, Matrix], loops: Loops) -> int:
        """Return how many sweeps of a batch ahead of its use an operand is turned.

        That many sweeps last as long as a turned tile needs to go through the array and out.
        """
        a, b, out = matrices
        turned = self._turned_bytes((a, b), loops)
        if out.matrices == 1 or turned == 0:
            return 0
        p, array = self._block[0], self._chip.pe_array
        vectors = loops.group[0] * loops.group[1] * loops.chunk * -(-a.rows // p)
        sweep = (vectors + min(p, a.rows)) * array.cycles_per_vector[b.dtype]
        latency = result_cycles(self._chip, min(array.cols, a.rows)) + array.rows
        room = self._room_bytes // (4 * turned) - 1
        return max(0, min(MOST_LEAD, -(-latency // sweep), room))

    def _choose(
        self,
        node: MultiplyNode,
        matrices: tuple[Matrix, Matrix, Matrix],
        counts: tuple[int, int],
        chunk: int,
    ) -> tuple[Loops, int, int]:
        """Return the loops, how many tasks ahead of its use an operand is turned, banks for sums.

        All operands of a sweep are turned ahead if there is room for them; otherwise they are
        turned tile by tile, while sums grow.
        """
        a, b, out = matrices
        banks = self._chip.result_buffer.banks
        P, K = a.cols, a.rows
        if node.diagonal is not None:
            P, counts = min(P, self._block[0]), (1, counts[1])
            K = node.diagonal.taps * P
        work = ProductToCut(
            P,
            b.cols,
            K,
            b.dtype,
            data_type(out.dtype).size_bytes,
            self._block,
            "dram" in (a.source.kind, b.source.kind),
            chunk,
            counts,
            node.layer,
            self._room_bytes,
            out.holder in self._pooled,
        )
        loops = choose_loops(self._chip, self._options, work)
        sweep = len(k_tiles(self._chip, K)) - 1
        if self._turned_bytes((a, b), loops) * 4 <= self._room_bytes:
            return loops, sweep, banks
        spare = turning_banks(self._chip, self._options, b.dtype)
        spared = choose_loops(self._chip, self._options, work, spare_banks=spare)
        taken = spared.group[0] * spared.group[1]
        if taken == banks:
            return loops, sweep, banks
        return spared, 2, max(1, banks - spare)

    def _taken_as_it_arrives(self, operands: tuple[Matrix, Matrix]) -> bool:
        """Return whether a lone group of sums should grow K-tile by K-tile, as operands arrive.

        It need not if the products before take longer than these operands, and the operands of all
        products before, take to come. Then tile after tile is finished: engines go over it, or DMA
        stores it, while the array makes the next one.
        """
        self._brought += sum(self._load_cycles(matrix) for matrix in operands)
        if "dram" not in (matrix.source.kind for matrix in operands):
            return False
        before = sum(loops.estimate for _, loops in self.loops[:-1])
        return self._brought * self._chip.period("dma") > before * self._chip.period("pe_array")

    def _load_cycles(self, matrix: Matrix) -> float:
        """Return about how many cycles all queues take to bring a matrix, the first time."""
        if matrix.source.kind != "dram" or matrix.name in self._loaded:
            return 0.0
        self._loaded.add(matrix.name)
        return matrix.size_bytes / dram_rate(self._chip, self._chip.dma.useful_queues)

    def _turned_bytes(self, operands: tuple[Matrix, Matrix], loops: Loops) -> int:
        """Return the bytes of each partition that a sweep's turned tiles take."""
        total = 0
        widths = (loops.group[0] * self._chip.pe_array.cols, loops.group[1] * loops.chunk)
        for matrix, width in zip(operands, widths, strict=True):
            if self._order.waits_to_be_turned(matrix.name):
                rows = -(-matrix.rows // self._block[0])
                total += rows * min(width, matrix.cols) * data_type(matrix.dtype).size_bytes
        return total

    def _last_sums(
        self,
        operands: tuple[Matrix, Matrix],
        group: tuple[Sequence[Span], Sequence[Span]],
        banks: int,
        *,
        ends: bool,
    ) -> list[tuple[Sequence[Span], Sequence[Span]]]:
        """Cut the last group so that few sums are left to copy out and to store at the end.

        Its operands are used several times then, so they must have room on the chip meanwhile. Each
        chunk needs loads of its own, which must hide behind the chunk. ends: nothing else is
        multiplied behind these sums; otherwise the last chunk stays whole, because all its parts
        would take banks before the next product has one.
        """
        (some, others), (a, b) = group, operands
        array, K = self._chip.pe_array, a.rows
        room = self._room_bytes // 2
        for matrix, columns in ((a, some), (b, others)):
            if matrix.source.kind != "state_buffer":
                width = sum(span.count for span in columns) * data_type(matrix.dtype).size_bytes
                room -= -(-K // self._block[0]) * width
        if room < 0:
            return [group]
        stream = min(span.count for span in others) * array.vector_cycles(b.dtype)
        hidden = load_reads(self._chip, min(K, array.rows), some[0].count, a.dtype) <= stream
        if not hidden or array.weight_buffer != "double" or self._chip.state_buffer.banks == 1:
            return [([col], others) for col in some]
        one_by_one: list[tuple[Sequence[Span], Sequence[Span]]] = [
            ([col], [chunk]) for col in some for chunk in others
        ]
        if not ends:
            return one_by_one
        (col,), (chunk,) = one_by_one[-1]
        part = part_of_last(self._chip, self._options, (chunk.count, K, col.count), b.dtype, banks)
        parts = [
            Span(chunk.first + n, min(part, chunk.count - n)) for n in range(0, chunk.count, part)
        ]
        return [*one_by_one[:-1], ([col], parts)]

    def _sweep(
        self,
        place: int,
        node: MultiplyNode,
        matrices: tuple[Matrix, Matrix, Matrix],
        number: int,
        sums: tuple[Sequence[Span], Sequence[Span]],
    ) -> Iterator[Task]:
        cols, moving = sums
        a, b, out = matrices
        rows, diagonal = self._block[0], node.diagonal
        most = min(rows, self._chip.pe_array.rows)
        tiles = list(spans(0, a.rows, rows, most))
        if diagonal is not None:
            tiles = diagonal.rows_of(cols[0], most)
        outs = dict.fromkeys(
            self._tiles.holding(out, number, c.first, m.first) for c in cols for m in moving
        )
        for step, tall in enumerate(tiles):
            k = tall.first
            reads = [
                self._tiles.holding(a, operand_number(a, out, number), k, c.first) for c in cols
            ]
            reads += [
                self._tiles.holding(b, operand_number(b, out, number), k, m.first) for m in moving
            ]
            last = step == len(tiles) - 1
            if last:
                made = ((c, m) for c in cols for m in moving)
                reads += [
                    tile for where in made for tile in self._tiles.others(node, number, *where)
                ]
            yield Task(
                MultiplyNode,
                place,
                tuple(dict.fromkeys(reads)),
                tuple(outs) if last else (),
                number,
                (tall,),
                tuple(cols),
                tuple(moving),
                step == 0,
                last,
            )


def _groups(
    cols: Sequence[Span], moving: Sequence[Span], loops: Loops
) -> Iterator[tuple[Sequence[Span], Sequence[Span]]]:
    """Yield stationary and moving columns whose sums stand side by side, in the loops' order."""
    p, q = loops.group
    some = [cols[n : n + p] for n in range(0, len(cols), p)]
    others = [moving[n : n + q] for n in range(0, len(moving), q)]
    if loops.outer == "stationary":
        for number, part in enumerate(some):
            for other in others if number % 2 == 0 else others[::-1]:
                yield part, other
    else:
        for number, other in enumerate(others):
            for part in some if number % 2 == 0 else some[::-1]:
                yield part, other


def _row_by_row(
    cols: Sequence[Span], moving: Matrix, rows: int
) -> Iterator[tuple[Sequence[Span], Sequence[Span]]]:
    """Yield each stationary column with the moving columns of `rows` rows, row by row."""
    for some in spans(0, moving.cols, moving.cols, rows):
        yield from (([col], [some]) for col in cols)
