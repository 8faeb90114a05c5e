"""What orders two instructions and what does not: one small program for each rule."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from support.scenes import codes, program, small_chip
from support.tiers import quick_first
from systolic.machine import simulate
from systolic.trace.words import KINDS

LOAD = "load weights=sb0:4+0x4"
MULTIPLY = "matmul moving=sb0:4+64x4 result=ps0:4+0x4"
COPY = "copy activation source=ps0:4+0x4 target=sb0:4+128x4"
LANES = small_chip(activation={"independent_lanes": True})


def multiply(columns: int, vectors: int, start: int) -> str:
    """Return a multiply that writes words of a few columns."""
    return f"matmul moving=sb0:4+64x{vectors} result=ps0:{columns}+{start}x{vectors}"


def ends_of(lines: list[str], **chip: object) -> list[int]:
    """Return the cycle in which each instruction of a program is done."""
    run = simulate(small_chip(**chip), program(*lines), kinds=KINDS, engine="register")
    return [each.done for each in sorted(run.trace.times)]


def races(lines: list[str], **chip: object) -> list[tuple[str, tuple[int, ...]]]:
    return codes(lines, small_chip(**chip), inputs=None)


class TestWaits:
    """Semaphores that count."""

    def test_done(self) -> None:
        assert races([LOAD, f"{MULTIPLY} post s0", f"{COPY} wait s0>=1"]) == []

    def test_through_a_third_instruction(self) -> None:
        lines = [
            "memset activation target=sb0:4+0x4 value=1 post s0",
            "dma q0 source=dr0:1+0x4 target=dr0:1+16x4 wait s0>=1 post s1",
            "copy pooling source=sb0:4+0x4 target=sb0:4+64x4 wait s1>=1",
        ]
        assert races(lines) == []
        assert races([lines[0], lines[1].replace("wait s0>=1 ", ""), lines[2]]) == [
            ("read-after-write", (2, 0))
        ]

    def test_any_of_two_posts_is_neither(self) -> None:
        lines = [
            "memset activation target=sb0:4+0x4 value=1 post s0",
            "memset pooling target=sb0:4+64x4 value=1 post s0",
            "dma q0 source=sb0:4+0x4 target=dr0:1+0x16 wait s0>=1",
        ]
        assert races(lines) == [("read-after-write", (2, 0))]
        assert races([*lines[:2], lines[2].replace("s0>=1", "s0>=2")]) == []

    def test_a_post_that_comes_after_does_not_count(self) -> None:
        """The second post is made by an instruction that waits for the first reader."""
        lines = [
            "memset activation target=sb0:4+0x4 value=1 post s0",
            "copy pooling source=sb0:4+0x4 target=sb0:4+64x4 wait s0>=1 post s1",
            "memset activation target=sb0:4+0x4 value=2 wait s1>=1 post s0",
            "copy pooling source=sb0:4+0x4 target=sb0:4+128x4 wait s0>=2",
        ]
        assert races(lines) == []
        assert races([*lines[:2], lines[2].replace("wait s1>=1 ", ""), lines[3]]) != []

    def test_what_one_semaphore_teaches_another(self) -> None:
        """s0 and s1 have two posters each; one comes after the instruction it could release.

        s2 shows it for s1: the last memset comes after the DMA. So the DMA waits for the memset of
        the pooling engine, which shows it for s0. Nothing new is learnt of s2 meanwhile.
        """
        lines = [
            "memset activation target=sb0:4+0x4 value=1 post s0",
            "copy pooling source=sb0:4+0x4 target=sb0:4+64x4 wait s0>=1",
            "memset pooling target=sb0:4+128x4 value=2 post s1",
            "dma q0 source=sb0:4+128x4 target=dr0:1+0x16 wait s1>=1 post s0",
            "dma q0 source=dr0:1+0x16 target=dr0:1+64x16 post s2",
            "memset activation target=sb0:4+192x4 value=3 wait s2>=1 post s1",
        ]
        assert races(lines) == []
        early = lines[5].replace("wait s2>=1 ", "")
        assert ("read-after-write", (1, 0)) in races([*lines[:5], early])

    def test_of_several_reads_of_a_queue_the_last_is_named(self) -> None:
        """A write after the second read comes after the first read too, so one finding suffices."""
        lines = [
            "copy pooling source=sb0:4+0x4 target=sb0:4+64x4",
            "copy pooling source=sb0:4+0x4 target=sb0:4+128x4",
            "memset activation target=sb0:4+0x4 value=1",
        ]
        assert races(lines) == [("write-after-read", (2, 1))]

    def test_an_early_post_that_is_late_is_not_guaranteed_by_later_ones(self) -> None:
        """Of the three posts the third comes after the second, the first at any time."""
        lines = [
            "memset activation target=sb0:4+0x4 value=1 post s0",
            "memset activation target=sb0:4+64x4 value=1 post s0 s1",
            "memset pooling target=sb0:4+128x4 value=1 wait s1>=1 post s2",
            "memset activation target=sb0:4+192x4 value=1 wait s2>=1 post s0",
            "dma q0 source=sb0:4+0x4 target=dr0:1+0x16 wait s0>=2",
        ]
        assert races(lines) == [("read-after-write", (4, 0))]

    def test_a_long_ping_pong(self) -> None:
        lines = []
        for n in range(40):
            before = f"wait s1>={n} " if n else ""
            lines += [
                f"memset activation target=sb0:4+0x4 value=1 {before}post s0",
                f"copy pooling source=sb0:4+0x4 target=sb0:4+64x4 wait s0>={n + 1} post s1",
            ]
        assert races(lines) == []
        lines[41] = lines[41].replace("s0>=21", "s0>=20")
        assert ("read-after-write", (41, 40)) in races(lines)

    def test_the_order_of_the_text_does_not_matter(self) -> None:
        lines = [
            "copy pooling source=sb0:4+0x4 target=sb0:4+64x4 wait s0>=1",
            "memset activation target=sb0:4+0x4 value=1 post s0",
        ]
        assert races(lines) == []
        assert codes(lines, inputs=()) == []
        unordered = [lines[0].replace(" wait s0>=1", ""), lines[1]]
        assert races(unordered) == [("write-after-read", (1, 0))]


class TestEngines:
    """Activation and pooling: reads in order, writes late."""

    WRITE = "memset activation target=sb0:4+0x4 value=1"

    def test_a_later_write_comes_after_an_earlier_read(self) -> None:
        read = "copy activation source=sb0:4+0x4 target=sb0:4+64x4"
        assert races([read, self.WRITE]) == []
        assert races([read, self.WRITE.replace("activation", "pooling")]) == [
            ("write-after-read", (1, 0))
        ]

    def test_a_later_read_may_come_before_an_earlier_write(self) -> None:
        read = "copy activation source=sb0:4+0x4 target=sb0:4+64x4"
        assert races([self.WRITE, read]) == [("read-after-write", (1, 0))]
        assert races([f"{self.WRITE} post s0", f"{read} wait s0>=1"]) == []

    def test_independent_lanes_are_independent(self) -> None:
        read = "copy activation source=sb0:2+0x4 target=sb0:2+64x4"
        write = "copy activation source=sb{}+128x4 target=sb0:2+0x4"
        same, other = write.format("1:3"), write.format("2:4")
        assert codes([read, same], LANES, None) == []
        assert codes([read, other], LANES, None) == [("write-after-read", (1, 0))]
        assert races([read, other]) == []

    def test_writes_in_one_bank_keep_their_order(self) -> None:
        assert races([self.WRITE, "memset activation target=sb2:3+4x1 value=2"]) == []

    def test_partitions_with_ports_of_their_own_let_a_write_overtake(self) -> None:
        """A DMA queue that has the port of partition 0 holds back the first write alone."""
        later = "memset activation target=sb{}+4x1 value=2"
        split = {"state_buffer": {"port_scope": "partition"}}
        for lanes in ("2:3", "0:3", "1:4"):
            assert races([self.WRITE, later.format(lanes)]) == []
            assert races([self.WRITE, later.format(lanes)], **split) == [
                ("write-after-write", (1, 0))
            ]
        assert races([self.WRITE, later.format("0:4")], **split) == []

    def test_writes_in_several_banks_may_overtake(self) -> None:
        wide = "memset activation target=sb0:4+48x8 value=1"
        assert races([wide, "memset activation target=sb2:3+64x1 value=2"]) == [
            ("write-after-write", (1, 0))
        ]

    def test_an_older_instruction_may_hold_some_lanes_back(self) -> None:
        """The oldest writes lanes 0 and 1 and is late; lane 3 of the second is then free."""
        oldest = "memset activation target=sb0:2+32x4 value=0"
        last = "memset activation target=sb3:4+4x1 value=2"
        assert races([oldest, self.WRITE, last]) == [("write-after-write", (2, 1))]
        assert races([f"{oldest} post s0", f"{self.WRITE} wait s0>=1", last]) == []
        assert races([oldest, self.WRITE, last.replace("sb3:4", "sb1:4")]) == []

    def test_who_knows_the_later_write_knows_the_earlier(self) -> None:
        later = "memset activation target=sb2:3+4x1 value=2 post s0"
        read = "dma q0 source=sb0:4+0x4 target=dr0:1+0x16 wait s0>=1"
        assert races([self.WRITE, later, read]) == []


class TestDma:
    """A queue is serial, two queues are not."""

    def test_queues(self) -> None:
        write = "dma q0 source=dr0:1+0x4 target=sb1:2+0x4"
        read = "dma q0 source=sb1:2+0x4 target=dr0:1+64x4"
        assert races([write, read, write]) == []
        assert races([write, read.replace("q0", "q1")]) == [("read-after-write", (1, 0))]


class TestArray:
    """Loads, vectors and sums."""

    def test_sums_are_in_order(self) -> None:
        more = f"{MULTIPLY} accumulate"
        assert races([LOAD, MULTIPLY, more, more, f"{more} post s0", f"{COPY} wait s0>=1"]) == []

    def test_what_follows_a_load_starts_after_it(self) -> None:
        overwrite = "memset pooling target=sb0:4+0x4 value=1 wait s0>=1"
        assert races([LOAD, f"{MULTIPLY} post s0", overwrite]) == []

    def test_vectors_have_been_read_when_the_next_multiply_starts(self) -> None:
        other = "matmul moving=sb0:4+128x1 result=ps0:1+32x1 post s0"
        overwrite = "memset pooling target=sb0:4+64x4 value=1 wait s0>=1"
        assert races([LOAD, MULTIPLY, other, overwrite]) == []
        load = "load weights=sb0:4+128x4 post s0"
        assert races([LOAD, MULTIPLY, load, overwrite]) == [("write-after-read", (3, 1))]

    @pytest.mark.parametrize(("vectors", "found"), [(1, 1), (2, 1), (3, 0), (4, 0)])
    def test_a_narrow_multiply_may_be_done_before_a_wide_one(
        self, vectors: int, found: int
    ) -> None:
        """Four columns take three cycles more than one; vectors in between make up for them."""
        narrow = f"matmul moving=sb0:4+192x{vectors} result=ps0:1+32x{vectors} post s0"
        assert len(races([LOAD, MULTIPLY, narrow, f"{COPY} wait s0>=1"])) == found

    def test_a_wait_for_a_wide_multiply_stands_for_those_before_it_whatever_follows(self) -> None:
        """The narrow multiply at the end is done before all, and nothing waits for it."""
        first, second, narrow = (multiply(4, 1, start) for start in (0, 4, 8))
        narrow = narrow.replace("ps0:4", "ps0:1")
        copy = f"{COPY} wait s0>=1".replace("x4", "x2")
        assert races([LOAD, first, f"{second} post s0", narrow, copy]) == []
        found = [("read-after-write", (4, 1)), ("read-after-write", (4, 2))]
        assert races([LOAD, first, second, f"{narrow} post s0", copy]) == found
        wide = multiply(4, 1, 12)
        assert races([LOAD, first, second, f"{narrow} post s0", wide, copy]) == [
            (code, (5, poster)) for code, (_, poster) in found
        ]

    @pytest.mark.parametrize("block", quick_first(range(8), 2))
    def test_what_ends_no_later_than_something_waited_for_behind_it_is_done(
        self, block: int
    ) -> None:
        """When multiplies end is the register engine's word; ports are refused to none of them.

        A vector takes nine cycles to the last column, so that several narrow multiplies behind a
        wide one end before it.
        """
        far = {"hop": (1, 3)}
        right = Counter[bool]()
        for seed in range(block * 50, block * 50 + 50):
            rng = Random(seed)
            count = rng.randint(2, 6)
            read = rng.randrange(count)
            shapes = [(rng.randint(1, 4), rng.randint(1, 2)) for _ in range(count)]
            made = [multiply(*shape, 8 * n) for n, shape in enumerate(shapes)]
            posters = rng.sample(range(count), rng.randint(1, 2))
            lines = [LOAD, *made]
            for semaphore, poster in enumerate(posters):
                lines[1 + poster] += f" post s{semaphore}"
            columns, vectors = shapes[read]
            source = f"ps0:{columns}+{8 * read}x{vectors}"
            target = f"sb0:{columns}+128x{vectors}"
            waits = " ".join(f"s{semaphore}>=1" for semaphore in range(len(posters)))
            lines.append(f"copy activation source={source} target={target} wait {waits}")
            ends = ends_of([LOAD, *made], pe_array=far)[1:]
            is_done = any(read <= n and ends[read] <= ends[n] for n in posters)
            assert (races(lines, pe_array=far) == []) == is_done, seed
            right[is_done] += 1
        assert min(right[True], right[False]) > 5

    def test_posts_of_a_narrow_multiply_do_not_stand_for_the_wide_one(self) -> None:
        narrow = "matmul moving=sb0:4+192x1 result=ps0:1+32x1 post s0"
        wide = f"{MULTIPLY} post s0"
        assert races([LOAD, wide, narrow, f"{COPY} wait s0>=1"]) == [("read-after-write", (3, 1))]
        assert races([LOAD, wide, narrow, f"{COPY} wait s0>=2"]) == []


class TestParts:
    """Rows and partitions of a result, word by word."""

    ROWS = f"{MULTIPLY} post s0:row"
    PARTITIONS = f"{MULTIPLY} post s0:partition"

    @pytest.mark.parametrize("row", range(4))
    def test_a_row_is_ready_when_it_is_posted(self, row: int) -> None:
        copy = f"copy activation source=ps0:4+{4 * row}x1 target=sb0:4+128x1 wait s0>="
        assert races([LOAD, self.ROWS, f"{copy}{row + 1}"]) == []
        if row:
            assert races([LOAD, self.ROWS, f"{copy}{row}"]) == [("read-after-write", (2, 1))]

    @pytest.mark.parametrize("column", range(4))
    def test_a_partition_is_ready_when_it_is_posted(self, column: int) -> None:
        lanes = f"{column}:{column + 1}"
        copy = f"copy activation source=ps{lanes}+0x4 target=sb{lanes}+128x4 wait s0>="
        assert races([LOAD, self.PARTITIONS, f"{copy}{column + 1}"]) == []
        if column:
            early = races([LOAD, self.PARTITIONS, f"{copy}{column}"])
            assert early == [("read-after-write", (2, 1))]

    def test_rows_may_lie_in_any_order(self) -> None:
        backwards = "matmul moving=sb0:4+64x4 result=result_buffer[0:4]+12 f32 (-1x4) post s0:row"
        copy = "copy activation source=ps0:4+{}x1 target=sb0:4+128x1 wait s0>=1"
        assert races([LOAD, backwards, copy.format(12)]) == []
        assert races([LOAD, backwards, copy.format(8)]) == [("read-after-write", (2, 1))]

    def test_the_last_part_is_all_of_it(self) -> None:
        for multiply in (self.ROWS, self.PARTITIONS):
            assert races([LOAD, multiply, f"{COPY} wait s0>=4"]) == []
            assert races([LOAD, multiply, f"{COPY} wait s0>=3"]) == [("read-after-write", (2, 1))]

    def test_vectors_of_finished_rows_have_been_read(self) -> None:
        overwrite = "memset pooling target=sb0:4+64x{} value=1 wait s0>=2"
        assert races([LOAD, self.ROWS, overwrite.format(2)]) == []
        assert races([LOAD, self.ROWS, overwrite.format(3)]) == [("write-after-read", (2, 1))]
        first = "memset pooling target=sb0:4+64x4 value=1 wait s0>=1"
        assert races([LOAD, self.PARTITIONS, first]) == []


class TestWords:
    """Accesses that interleave without meeting."""

    def test_even_and_odd_words(self) -> None:
        even = "memset activation target=state_buffer[0:4]+0 f32 (2x4) value=1"
        odd = "memset pooling target=state_buffer[0:4]+4 f32 (2x4) value=1"
        assert races([even, odd]) == []
        assert races([even, odd.replace("+4", "+8")]) == [("write-after-write", (1, 0))]

    def test_tiles_of_a_matrix_in_dram(self) -> None:
        def tile(queue: int, start: int) -> str:
            return f"dma q{queue} source=sb0:4+0x2 target=dram[0:1]+{start} f32 (4x4 1x2)"

        assert races([tile(0, 0), tile(1, 8)]) == []
        assert races([tile(0, 0), tile(1, 4)]) == [("write-after-write", (1, 0))]

    def test_partitions_tell_apart(self) -> None:
        one = "memset activation target=sb0:2+0x4 value=1"
        assert races([one, "memset pooling target=sb2:4+0x4 value=1"]) == []
