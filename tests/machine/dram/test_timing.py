"""Does DRAM with channels and banks take the time that section 6 gives it?

By hand, by the closed formulas of `systolic.hw.formulas.dram`, and event engine against register
engine.
"""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
import simpy

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.random_transfers import RandomTransfers, organised_chip
from support.tiers import quick_first
from systolic.hw.formulas import dram as formulas
from systolic.hw.formulas import timing
from systolic.hw.formulas.dram import ContiguousBytes
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Memset, Program
from systolic.machine import simulate
from systolic.machine.event.dram import channels as event_dram
from systolic.trace.records import Stall
from systolic.trace.transfers import ChannelCounts, QueueWaits
from systolic.trace.words import KINDS

ORGANISATION = {
    "channels": 2,
    "banks": 2,
    "row_bytes": 64,
    "burst_bytes": 16,
    "interleave_bytes": 64,
    "activate_cycles": 3,
    "precharge_cycles": 2,
}
ENGINES = ("event", "register")


def organised(dma=None, dram=None, **organisation):
    """A channel moves 4 bytes per cycle, so a burst of 16 takes 4."""
    return ideal_chip(
        4,
        4,
        dma={"queues": 3, "bytes_per_cycle": 8, **(dma or {})},
        dram={
            "size_bytes": 1 << 16,
            "bytes_per_cycle": 8,
            "organisation": ORGANISATION | organisation,
            **(dram or {}),
        },
    )


def with_organisation(chip, **keys):
    """Return a chip with other keys of its DRAM's organisation."""
    table = chip.model_dump()
    table["dram"]["organisation"] |= keys
    return Chip.model_validate(table)


def dram(start, *pattern, dtype="f32"):
    return Access(Buffer.DRAM, dtype, 0, 1, start, pattern)


def move(source, target, queue=0):
    return DmaCopy(dma_queue=queue, source=source, target=target)


def bank(number, elements, start=0):
    """Return elements in a state-buffer bank of their own."""
    return state(0, 1, number * 8192 + start, elements)


def run(chip, *copies):
    outcomes = [
        simulate(chip, Program("dram", copies), kinds=KINDS, engine=engine) for engine in ENGINES
    ]
    assert_same(*outcomes)
    return outcomes[0].trace


# -- one queue, by hand ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "cycles"),
    [
        (dram(0, (1, 4)), bank(0, 4), 3 + 4),  # a burst in a closed bank
        (dram(4, (1, 1)), bank(0, 1), 3 + 4),  # part of a burst costs a whole one
        (dram(12, (1, 2)), bank(0, 2), 3 + 4 + 4),  # part of two bursts in one row
        (dram(0, (1, 16)), bank(0, 16), 3 + 4 * 4),  # a row
        (dram(0, (1, 20)), bank(0, 20), 3 + 16 + 3 + 4),  # the next block: the other channel
        (dram(0, (1, 36)), bank(0, 36), 3 + 16 + 3 + 16 + 3 + 4),  # and then the other bank
        # 0 and 256 bytes: rows 0 and 1 of bank 0 of channel 0; the second closes the first
        (dram(0, (64, 2)), bank(0, 2), 3 + 4 + (2 + 3) + 4),
        # back and forth between these rows
        (dram(0, (0, 2), (64, 2)), bank(0, 4), 3 + 4 + 3 * (5 + 4)),
        # 0 and 128: different banks, so both stay open
        (dram(0, (0, 2), (32, 2)), bank(0, 4), 2 * (3 + 4) + 2 * 4),
        # out of the chip: the same
        (bank(0, 16), dram(0, (1, 16)), 3 + 4 * 4),
        # within DRAM: each burst is read, then written; 0 and 64 are different channels
        (dram(0, (1, 8)), dram(64, (1, 8)), 2 * (3 + 4) + 2 * (4 + 4) - 4 - 4),
        # by 8 bytes out of step: read 16, (write 8 of 16, read 16, ... write what remains
        (dram(0, (1, 8)), dram(72, (1, 8)), 3 + 4 + 3 + 4 + 4 + 4 + 4),
    ],
)
def test_a_lone_copy_by_hand(source, target, cycles):
    trace = run(organised(), move(source, target))
    assert trace.times[0].done == cycles - 1
    assert trace.times[0].first == 3


def test_latency_and_fetch_come_before_the_burst():
    chip = organised({"latency_cycles": 5, "descriptor_cycles": 2}, {"latency_cycles": 4})
    trace = run(chip, move(dram(0, (2, 3)), bank(0, 3)))
    # three runs in two bursts of one row: fetch, open, burst; fetch, burst; fetch, burst
    assert trace.times[0].first == 9 + 2 + 3
    assert trace.times[0].done == 9 + (2 + 3 + 4) + (2 + 4) + (2 + 4) - 1
    assert [r.label for r in trace.labels["dma0"]] == ["filling", "streaming"]
    assert trace.transfers.runs == {4: 3}
    assert trace.transfers.channels[0] == ChannelCounts(2, 1, 0, 12)


def test_a_slow_queue_holds_the_bus_for_longer():
    trace = run(organised({"bytes_per_cycle": 1}), move(dram(0, (1, 4)), bank(0, 4)))
    assert trace.times[0].done == 3 + 16 - 1


# -- several queues -------------------------------------------------------------------------------


def test_channels_work_side_by_side():
    trace = run(
        organised(),
        move(dram(0, (1, 16)), bank(0, 16), 0),
        move(dram(64, (1, 16)), bank(1, 16), 1),
    )
    assert [t.done for t in trace.times] == [18, 18]


def test_a_row_is_opened_while_the_bus_serves_another_bank():
    trace = run(
        organised(),
        move(dram(0, (1, 16)), bank(0, 16), 0),
        move(dram(128, (1, 4)), bank(1, 4), 1),
    )
    # Both open in 0-2. Queue 0 has the bus in 3-6, queue 1 (in line since 0) in 7-10, then the
    # three bursts that are left.
    assert [t.done for t in trace.times] == [3 + 4 + 4 + 12 - 1, 10]
    assert trace.transfers.waits["dma1"] == QueueWaits(0, 3, 4)
    assert trace.transfers.waits["dma0"] == QueueWaits(0, 3, 4)


def test_a_bank_works_for_one_burst_at_a_time():
    trace = run(
        organised(),
        move(dram(0, (1, 4)), bank(0, 4), 0),
        move(dram(256, (1, 4)), bank(1, 4), 1),  # another row of the same bank
        move(dram(256, (1, 4)), bank(2, 4), 2),  # a hit, once it is its turn
    )
    assert [t.done for t in trace.times] == [6, 6 + 5 + 4, 6 + 5 + 4 + 4]
    assert trace.transfers.channels[0] == ChannelCounts(1, 1, 1, 12)
    assert trace.transfers.waits["dma2"].bank_cycles == 7 + 9


def test_who_came_first_wins_over_the_lower_number():
    chip = organised({"queues": 4}, banks=4)
    copies = [
        move(dram(0, (1, 8)), bank(0, 8), 2),
        move(dram(128, (1, 4)), bank(1, 4), 3),
        move(dram(256, (1, 4)), bank(2, 4), 0),
    ]
    trace = run(chip, *copies)
    first = {t.unit: t.first for t in trace.times}
    # All in line since cycle 0, so by number: 0, 2, 3. Queue 2's second burst, in hand since 11,
    # comes behind queue 3's first.
    assert first == {"dma0": 3, "dma2": 7, "dma3": 11}
    assert {t.unit: t.done for t in trace.times} == {"dma0": 6, "dma3": 14, "dma2": 18}


def test_a_refused_port_holds_the_bus():
    """The engine fills the bank first; the queue behind waits for the bus all the while."""
    chip = organised()
    fill = Memset(engine="activation", target=bank(0, 10, 64), value=1)
    trace = run(
        chip,
        move(dram(0, (1, 4)), bank(0, 4), 0),
        move(dram(128, (1, 4)), bank(1, 4), 1),
        fill,
    )
    (stall,) = (s for s in trace.stalls if s.unit == "dma0")
    wrote = trace.times[2].done + 1
    assert stall == Stall(3, "dma0", 0, wrote - 3, "state_buffer", 0, "write", "activation")
    assert [t.done for t in trace.times[:2]] == [wrote + 3, wrote + 7]
    assert trace.transfers.channels[0].busy_cycles == wrote - 3 + 8


def test_of_two_banks_taken_by_others_the_first_is_the_one_refused():
    chip = organised({"queues": 3}, {"bytes_per_cycle": 32}, channels=4)
    trace = run(
        chip,
        move(dram(0, (1, 4)), bank(0, 4), 0),
        move(dram(64, (1, 4)), bank(1, 4, 64), 1),
        move(dram(128, (1, 4)), bank(1, 4, -4), 2),  # 4 bytes in bank 0, the others in bank 1
    )
    assert trace.stalls == (Stall(3, "dma2", 2, 2, "state_buffer", 0, "write", "dma"),)


@pytest.mark.parametrize(
    ("scope", "refusals", "ends", "used"),
    [
        # Queue 0 has bank 0 in partitions 0 and 1 in cycles 3 to 6; queue 1 wants partition 1.
        ("partition", [("dma1", 3, 4, 1)], [6, 10, 6], 4 * 4),
        # One port for all partitions, which both bursts of queue 0 use at once.
        ("bank", [("dma1", 3, 4, -1), ("dma2", 3, 8, -1)], [6, 10, 14], 3 * 4),
    ],
)
@pytest.mark.parametrize("filled", [0, 20])
def test_bursts_of_one_queue_take_the_ports_of_their_partitions(
    scope, refusals, ends, used, filled
):
    """Two bursts of queue 0 move at once, into partitions 0 and 1; queue 2 wants partition 2.

    A fill that gives way has the arbiter decide about every burst; else the queues settle it.
    """
    chip = organised({"queues": 4}, {"bytes_per_cycle": 16}, channels=4, outstanding=2).model_dump()
    chip["port_priority"] = ("dma", "moving", "weights", "activation", "pooling")
    chip["state_buffer"]["port_scope"] = scope
    fill = Memset(engine="activation", target=state(1, 1, 256, filled), value=1)
    trace = run(
        Chip.model_validate(chip),
        move(dram(0, (16, 2), (1, 4)), state(0, 2, 0, 4), 0),
        move(dram(128, (1, 4)), state(1, 1, 64, 4), 1),
        move(dram(192, (1, 4)), state(2, 1, 128, 4), 2),
        *([fill] if filled else []),
    )
    stalls = [s for s in trace.stalls if s.unit != "activation"]
    assert [(s.unit, s.tick, s.cycles, s.partition) for s in stalls] == refusals
    assert [t.done for t in trace.times if t.unit != "activation"] == ends
    assert trace.port_cycles["state_buffer", 0, "write"] == used + filled


def test_a_refusal_goes_on_when_an_engine_begins_to_want_the_port_too():
    """Queue 1 waits for queue 0; in the middle of that a fill, of lower rank, comes along."""
    slow = organised({"bytes_per_cycle": 1}).model_dump()
    slow["port_priority"] = ("dma", "moving", "weights", "activation", "pooling")
    slow["activation"]["fixed_cycles"] = 8
    trace = run(
        Chip.model_validate(slow),
        move(dram(0, (1, 4)), bank(0, 4), 0),
        move(dram(64, (1, 4)), bank(0, 4, 64), 1),
        Memset(engine="activation", target=bank(0, 4, 128), value=1),
    )
    assert [s for s in trace.stalls if s.unit == "dma1"] == [
        Stall(3, "dma1", 1, 16, "state_buffer", 0, "write", "dma")
    ]


def test_queues_meet_at_one_port_while_one_of_them_meets_an_engine_at_another():
    """Queue 0 fills bank 1, then bank 0, where an engine is; queue 1 fills bank 1."""
    both = Access(Buffer.STATE, "f32", 0, 1, 8192, ((-2048, 2), (1, 16)))
    trace = run(
        organised(),
        move(dram(0, (1, 32)), both, 0),
        move(dram(64, (1, 16)), bank(1, 16, 64), 1),
        Memset(engine="activation", target=bank(0, 60, 256), value=1),
    )
    first = min(s for s in trace.stalls if s.unit == "dma1")
    assert first == Stall(3, "dma1", 1, 16, "state_buffer", 1, "write", "dma")


def test_rows_stay_open_from_copy_to_copy():
    trace = run(organised(), *[move(dram(0, (1, 4)), bank(n, 4)) for n in range(2)])
    assert [t.done for t in trace.times] == [6, 10]


# -- further rules, by hand -----------------------------------------------------------------------

GROUPS = {
    "channels": 1,
    "banks": 4,
    "bank_groups": 2,
    "address_order": ("bank_group", "column", "bank", "row"),
    "interleave_bytes": 16,
}
"""Bursts at 0, 32, ... lie in bank group 0, those at 16, 48, ... in group 1."""


def one_channel(dma=None, **organisation):
    """A channel that moves 4 bytes per cycle, so a burst of 16 takes 4."""
    return organised(dma, {"bytes_per_cycle": 4}, **(GROUPS | organisation))


def words_at(*bursts):
    """Return elements of DRAM, one of each burst: a descriptor each."""
    first, step = bursts[0], (bursts[1] - bursts[0]) // 4 if len(bursts) > 1 else 0
    return dram(first, (step, len(bursts)))


@pytest.mark.parametrize(
    ("keys", "end"),
    [
        # the worked table of section 6: the last cycle of four bursts in a row
        ({"outstanding": 4, "burst_gap_in_group_cycles": 6}, 18),
        ({"outstanding": 4, "burst_gap_in_group_cycles": 6,
          "address_order": ("column", "bank_group", "bank", "row")}, 24),
        ({"outstanding": 1, "burst_gap_in_group_cycles": 6}, 21),
        ({"outstanding": 4, "burst_gap_in_group_cycles": 6, "activate_gap_cycles": 9}, 22),
        # two in hand: the third is taken in 7, the fourth in 11; both banks are open by then
        ({"outstanding": 2}, 18),
        # a burst starts every 5 cycles, whatever its group
        ({"outstanding": 4, "burst_gap_cycles": 5}, 3 + 3 * 5 + 3),
    ],
)  # fmt: skip
def test_four_bursts_of_a_lone_queue(keys, end):
    trace = run(one_channel(**keys), move(dram(0, (1, 16)), bank(0, 16)))
    assert trace.times[0].done == end


@pytest.mark.parametrize(
    ("keys", "end"),
    [
        # rows 0 and 1 of bank 0 of group 0: opened 0-2, moved 3-6, closed 7-8, opened 9-11, 12-15
        ({}, 15),
        # closed 10 after it was activated in 0: 10-11, opened 12-14
        ({"row_active_cycles": 10}, 18),
        # activated again 13 after 0
        ({"row_cycle_cycles": 13}, 13 + 3 + 3),
        # both: 10 + 2 = 12 is before 13
        ({"row_active_cycles": 10, "row_cycle_cycles": 13}, 19),
    ],
)
def test_a_row_is_kept_open_and_opened_again(keys, end):
    chip = one_channel(**keys)
    rows = 4 * 64  # bytes from a row of a bank to the next one: four banks
    trace = run(chip, move(words_at(0, rows), bank(0, 2)))
    assert trace.times[0].done == end
    assert trace.transfers.channels[0] == ChannelCounts(0, 1, 1, 8)


@pytest.mark.parametrize(
    ("keys", "firsts"),
    [
        # five banks of four groups wanted at once; each is ready 3 after it is activated
        ({}, [3, 7, 11, 15, 19]),
        ({"activate_gap_cycles": 5}, [3, 8, 13, 18, 23]),
        # groups 0 1 2 3 0: the last is the second of its group
        ({"activate_gap_in_group_cycles": 30}, [3, 7, 11, 15, 33]),
        ({"four_activates_cycles": 40}, [3, 7, 11, 15, 43]),
    ],
)
def test_activations_keep_their_distance(keys, firsts):
    chip = one_channel({"queues": 5}, banks=8, **({"bank_groups": 4} | keys))
    # group 0 again, its second bank: four groups with four bursts each lie before it
    copies = [move(words_at(a), bank(0, 1, 64 * q), q) for q, a in enumerate([0, 16, 32, 48, 256])]
    trace = run(chip, *copies)
    assert sorted(t.first for t in trace.times) == firsts


@pytest.mark.parametrize(
    ("keys", "first", "second"),
    [
        ({}, (True, 6), 10),
        ({"read_to_write_cycles": 5}, (True, 6), 6 + 5 + 4),
        ({"write_to_read_cycles": 5}, (True, 6), 10),
        ({"write_to_read_cycles": 7}, (False, 6), 6 + 7 + 4),
        ({"read_to_write_cycles": 7}, (False, 6), 10),
    ],
)
def test_the_bus_turns(keys, first, second):
    """Two queues in different banks, of which the first reads (or writes) before the other."""
    reads_first, end = first
    copies = [move(words_at(0), bank(0, 1), 0), move(bank(1, 1), words_at(16), 1)]
    if not reads_first:
        copies = [move(bank(1, 1), words_at(16), 0), move(words_at(0), bank(0, 1), 1)]
    trace = run(one_channel(**keys), *copies)
    assert [t.done for t in trace.times] == [end, second]


def test_a_refresh_waits_for_bursts_and_closes_rows():
    """Due in 20, begun in 26 when the burst given in 19 has ended; it takes 2 + 6 cycles."""
    chip = one_channel(refresh_interval_cycles=20, refresh_cycles=6)
    trace = run(chip, move(dram(0, (8, 6)), bank(0, 6)))  # six bursts in group 0, four to a row
    # opened 0-2, four bursts 3-18, the next bank opened 19-21, burst 22-25, refresh 26-33, the
    # bank opened again 34-36, burst 37-40
    assert trace.times[0].done == 40
    assert trace.transfers.channels[0] == ChannelCounts(3, 3, 0, 24)
    assert trace.transfers.waits["dma0"].bank_cycles == 8


def test_refreshes_while_nothing_is_asked_for():
    """Latency 100: refreshes in 20, 40, 60, 80 and 100; the burst waits for the last of them."""
    chip = one_channel({"latency_cycles": 100}, refresh_interval_cycles=20, refresh_cycles=6)
    trace = run(chip, move(words_at(0), bank(0, 1)))
    assert trace.times[0].done == 100 + 6 + 3 + 3  # no row is open, so nothing has to be closed


@pytest.mark.parametrize(
    ("scheduling", "patience", "ends"),
    [
        # queue 0 has row 0 open; queue 1 asks for row 1 of the bank and queue 2 for row 0
        ("fcfs", 0, {"dma1": 6 + 2 + 3 + 4, "dma2": 15 + 2 + 3 + 4}),
        ("fr_fcfs", 0, {"dma2": 10, "dma1": 10 + 2 + 3 + 4}),
        ("fr_fcfs", 7, {"dma2": 10, "dma1": 10 + 2 + 3 + 4}),  # in hand for 7 cycles, not more
        ("fr_fcfs", 6, {"dma1": 6 + 2 + 3 + 4, "dma2": 15 + 2 + 3 + 4}),
    ],
)
def test_first_ready_goes_before_first_come(scheduling, patience, ends):
    chip = one_channel(scheduling=scheduling, patience_cycles=patience)
    copies = [move(words_at(a), bank(0, 1, 64 * q), q) for q, a in enumerate([0, 256, 32])]
    trace = run(chip, *copies)
    found = {t.unit: t.done for t in trace.times}
    assert found == {"dma0": 6} | ends


def test_a_queue_uses_as_many_buses_as_it_has_bytes_for():
    """Channels of 4 bytes per cycle; a queue that moves 8 uses two of the four."""
    for rate, end in ((16, 6), (8, 10), (4, 18)):
        chip = organised(
            {"bytes_per_cycle": rate}, {"bytes_per_cycle": 16},
            channels=4, interleave_bytes=16, outstanding=4,
        )  # fmt: skip
        assert run(chip, move(dram(0, (1, 16)), bank(0, 16))).times[0].done == end


@pytest.mark.parametrize("scope", ["partition", "bank"])
@pytest.mark.parametrize(
    ("width", "target", "busy", "end"),
    [
        # the worked table of section 6: the cycles for which each channel's bus is held
        (None, bank(0, 16), [4, 4, 4, 4], 6),
        (8, bank(0, 16), [4, 4, 8, 8], 10),
        (12, bank(0, 16), [4, 4, 4, 8], 10),
        (4, bank(0, 16), [4, 8, 12, 16], 18),
        (2, bank(0, 16), [8, 16, 24, 32], 34),
        (8, bank(1, 16, -32), [4, 4, 4, 4], 6),
        (4, state(0, 4, 0, 4), [4, 4, 4, 4], 6),
        (2, dram(256, (1, 16)), [8, 8, 8, 8], 13),  # read in 3-6, rows opened in 7-9, written
    ],
)
def test_bursts_share_what_passes_a_port(scope, width, target, busy, end):
    chip = organised(
        {"bytes_per_cycle": 16}, {"bytes_per_cycle": 16},
        channels=4, interleave_bytes=16, outstanding=4,
    ).model_dump()  # fmt: skip
    chip["state_buffer"] |= {"port_bytes": width, "port_scope": scope}
    chip["pe_array"]["cycles_per_vector"] = {"u8": 1}
    trace = run(Chip.model_validate(chip), move(dram(0, (1, 16)), target))
    assert trace.times[0].done == end
    assert [c.busy_cycles for c in trace.transfers.channels.values()] == busy
    assert not trace.stalls


def test_hashing_spreads_what_would_meet():
    """Every 128 bytes: channel 0 without hashing, both in turn with it, as 128 // 128 = 1, 2, 3."""
    for hashed, counts in ((False, [8, 0]), (True, [4, 4])):
        chip = organised(hash_channels=hashed)
        trace = run(chip, move(dram(0, (32, 8)), bank(0, 8)))
        assert [c.bursts for c in trace.transfers.channels.values()] == counts
    for hashed, conflicts in ((False, 3), (True, 0)):
        chip = one_channel(hash_banks=hashed)  # rows 0 to 3 of one bank, or of all four
        trace = run(chip, move(dram(0, (64, 4)), bank(0, 4)))
        assert trace.transfers.channels[0].conflicts == conflicts


@pytest.mark.parametrize(
    ("cost", "outstanding", "first", "ends"),
    [
        # the worked table of section 6: descriptors of 4 bytes at 0, 32 and 64, all in one row
        ("sum", 1, 9, [12, 22, 32]),
        ("sum", 4, 9, [12, 16, 21]),
        ("max", 1, 3, [6, 12, 18]),
        ("max", 4, 3, [6, 11, 17]),
    ],
)
def test_what_descriptors_cost(cost, outstanding, first, ends):
    chip = one_channel({"descriptor_cycles": 6, "descriptor_cost": cost}, outstanding=outstanding)
    trace = run(chip, move(dram(0, (8, 3)), bank(0, 3)))
    assert (trace.times[0].first, trace.times[0].done) == (first, ends[-1])
    assert trace.words.of("write").rows["tick"].tolist() == ends
    if outstanding == 1:
        runs = [ContiguousBytes(address, None, 4) for address in (0, 32, 64)]
        assert formulas.lone_copy_cycles(chip, runs) == ends[-1] + 1


def test_a_refused_port_delays_bursts_but_not_the_fetch():
    """Three descriptors, 20 cycles each to fetch, from cycle 0 and 20 on, in an open row.

    The first burst moves in 3-6. The engine, which goes first, writes the bank in 18 to 27, so that
    the second moves in 28-31; then its descriptor is still fetched, up to 39. The third, begun in
    40, moves in 40-43, and ends in 59.
    """
    chip = one_channel(
        {"descriptor_cycles": 20, "descriptor_cost": "max"}, outstanding=2
    ).model_dump()
    chip["activation"]["fixed_cycles"] = 17
    fill = Memset(engine="activation", target=bank(0, 10, 64), value=1)
    trace = run(Chip.model_validate(chip), move(dram(0, (8, 3)), bank(0, 3)), fill)
    (stall,) = (s for s in trace.stalls if s.unit == "dma0")
    assert (stall.tick, stall.cycles) == (20, 8)
    assert trace.words.of("read").rows["tick"].tolist() == [19, 39, 59]


def test_the_next_copy_begins_when_the_last_descriptor_has_been_fetched():
    """Bursts move in 3-6 and 11-14; the descriptors are fetched in 0-7 and 8-15."""
    chip = one_channel({"descriptor_cycles": 8, "descriptor_cost": "max", "outstanding": 2})
    trace = run(chip, *(move(words_at(16 * n), bank(0, 1, 64 * n)) for n in range(2)))
    assert [(t.first, t.done) for t in trace.times] == [(3, 7), (11, 15)]
    assert [(r.first, r.stop, r.label) for r in trace.labels["dma0"]] == [(0, 16, "streaming")]


def test_a_copy_within_dram_reads_ahead_of_what_it_writes():
    """Bursts at 0, 32 to 16, 48: both reads are in hand at once, then both writes."""
    chip = one_channel(outstanding=2)
    trace = run(chip, move(dram(0, (8, 2)), dram(16, (8, 2))))
    # reads 3-6 and 7-10 in group 0; the first write is taken in hand in 7, opens 7-9 and moves
    # in 11-14, the second in 15-18
    assert trace.times[0].done == 18


# -- closed formulas ------------------------------------------------------------------------------


def _runs(copy):
    """Return the descriptors, found by walking both sides element by element."""
    sides = []
    for access in (copy.source, copy.target):
        size = access.element_bytes
        sides.append(
            [
                (p, int(offset) * size)
                for p in range(access.partition, access.partition + access.partitions)
                for offset in access.offsets()
            ]
        )
    size, found = copy.source.element_bytes, []
    for (p, a), (q, b) in zip(*sides, strict=True):
        last = found[-1] if found else None
        if last and last[:4] == [p, q, a - last[4], b - last[4]]:
            last[4] += size
        else:
            found.append([p, q, a, b, size])
    is_dram = [side.buffer is Buffer.DRAM for side in (copy.source, copy.target)]
    return [
        ContiguousBytes(a if is_dram[0] else None, b if is_dram[1] else None, size)
        for _, _, a, b, size in found
    ]


@pytest.mark.parametrize("seed", quick_first(range(150), 37))
def test_the_formula_of_a_lone_copy(seed):
    rng = Random(seed)
    chip = with_organisation(organised_chip(rng, at_once=True), outstanding=1)
    copies = [
        i
        for i in RandomTransfers(rng, chip).build(12)[0].instructions
        if isinstance(i, DmaCopy) and Buffer.DRAM in (i.source.buffer, i.target.buffer)
    ]
    for copy in copies[:3]:
        alone = DmaCopy(dma_queue=0, source=copy.source, target=copy.target)
        trace = simulate(chip, Program("alone", (alone,)), values=False).trace
        in_state = Buffer.STATE in (copy.source.buffer, copy.target.buffer)
        found = formulas.lone_copy_cycles(chip, _runs(alone), in_state=in_state)
        assert trace.cycles("dma0") == found


def test_the_formula_without_addresses_is_that_of_open_rows_and_aligned_runs():
    chip = organised({"descriptor_cycles": 3, "latency_cycles": 7}, activate_cycles=0,
                     precharge_cycles=0)  # fmt: skip
    copy = move(dram(64, (1, 16)), Access(Buffer.STATE, "f32", 0, 1, 0, ((8, 4), (1, 4))))
    trace = simulate(chip, Program("aligned", (copy,)), values=False).trace
    assert trace.cycles() == timing.dma_cycles(chip, [(4, 16)], dram=True)
    assert formulas.run_cycles(chip, 17) == 2 * formulas.run_cycles(chip, 16) == 2 * 4


@pytest.mark.parametrize(
    ("queues", "rate"),
    [(1, 4), (2, 8), (3, 8)],  # a channel has 4 bytes per cycle, and there are two
)
def test_the_rate_of_queues_is_that_of_as_many_channels(queues, rate):
    assert formulas.dram_rate(organised(), queues) == rate


@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_no_run_is_faster_than_the_bound(seed):
    rng = Random(seed)
    chip = organised_chip(rng)
    program, _ = RandomTransfers(rng, chip).build(20)
    moved = sum(
        side.partitions * side.elements * side.element_bytes
        for i in program.instructions
        if isinstance(i, DmaCopy)
        for side in (i.source, i.target)
        if side.buffer is Buffer.DRAM
    )
    if moved:
        trace = simulate(chip, program, values=False).trace
        assert trace.cycles() >= timing.dram_bound(chip, moved).cycles


@pytest.mark.parametrize("queues", [1, 2, 4])
def test_the_bound_is_reached_by_whole_rows_on_channels_of_their_own(queues):
    chip = organised({"queues": queues}, {"bytes_per_cycle": 16}, channels=4, activate_cycles=0)
    copies = [move(dram(64 * q, (1, 16)), bank(q, 16), q) for q in range(queues)]
    trace = simulate(chip, Program("rows", tuple(copies)), values=False).trace
    assert trace.cycles() == timing.dram_bound(chip, 64 * queues).cycles


def test_the_bound_of_one_burst_in_hand_counts_rows_opened():
    """Four rows of 64 bytes on two banks: 16 bursts of 4 cycles, each row opened in 3.

    Two of the rows find another one open, and close it in 5. The queue has one burst in hand.
    """
    chip = organised(
        {"queues": 1, "outstanding": 1, "latency_cycles": 0}, {"bytes_per_cycle": 4},
        channels=1, banks=2, row_bytes=64, burst_bytes=16, activate_cycles=3, precharge_cycles=5,
        refresh_interval_cycles=0,
    )  # fmt: skip
    assert formulas.opened_cycles(chip, 256) == 16 * 4 + 4 * 3 + 2 * 5


def test_the_bound_counts_refreshes():
    """One channel, 100 bursts of 4 cycles in one row, a refresh of 5 due every 25 cycles.

    Seven bursts are given before cycle 25; the refresh takes 28-32. From then on five bursts fit
    between refreshes: 7 + 18 * 5 = 97, so 19 refreshes come before the last burst.
    """
    chip = organised(
        {"latency_cycles": 0}, {"bytes_per_cycle": 4}, channels=1, banks=1, row_bytes=4096,
        activate_cycles=0, precharge_cycles=0, refresh_cycles=5, refresh_interval_cycles=25,
    )  # fmt: skip
    trace = run(chip, move(dram(0, (1, 400)), bank(0, 400)))
    assert trace.cycles("dma0") == 400 + 19 * 5
    # the bound knows of the refreshes that 400 cycles and one burst less see, not of theirs
    assert formulas.least_cycles(chip, 1600) == 400 + 15 * 5
    # 80 cycles of bursts: when the third refresh is due, the bus has moved 75 and one burst has
    # the bank, so a cycle is left for afterwards; of 76 cycles none needs to be
    assert formulas.least_cycles(chip, 320) == 80 + 3 * 5
    assert formulas.least_cycles(chip, 304) == 76 + 2 * 5


@pytest.mark.parametrize("seed", range(30))
def test_every_byte_has_a_place_of_its_own(seed):
    """Channel, bank, row and place in the row: one address each, rows filled without gaps."""
    chip = organised_chip(Random(seed))
    parts = chip.dram.organisation
    size = parts.channels * parts.banks * parts.row_bytes * 2
    # Whole stripes of rows only: an interleaving that does not divide a row needs more of them.
    size *= parts.interleave_bytes // np.gcd(parts.interleave_bytes, parts.row_bytes)
    found = {}
    for address in range(0, int(size), parts.burst_bytes):
        where = formulas.place(parts, address, int(size))
        found.setdefault(where, []).append(address)
        assert 0 <= where.channel < parts.channels
        assert 0 <= where.bank < parts.banks
    assert {len(bursts) * parts.burst_bytes for bursts in found.values()} == {parts.row_bytes}


# -- both engines ---------------------------------------------------------------------------------

QUICK, MANY = 100, 1000


def _compare(seed: int) -> None:
    rng = Random(seed)
    chip = organised_chip(rng, clocks=seed % 3 == 0)
    program, images = RandomTransfers(rng, chip).build(rng.randint(2, 20))
    event = simulate(chip, program, images, kinds=KINDS)
    assert_same(event, simulate(chip, program, images, kinds=KINDS, engine="register"))


# In the last two a copy within DRAM, which needs no port, is on its way with copies that meet.
@pytest.mark.parametrize("seed", quick_first([185, 252, *range(QUICK)], 10))
def test_random_transfers(seed):
    _compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_many_random_transfers(part):
    for seed in range(QUICK + part, QUICK + MANY, 6):
        _compare(seed)


@pytest.mark.slow
def test_random_transfers_meet_everywhere():
    """They are worth comparing: bursts wait for banks, rows, buses and ports in many of them."""
    met = dict.fromkeys(("bank", "row", "bus", "port", "hit", "opened", "conflict"), 0)
    for seed in range(QUICK):
        rng = Random(seed)
        chip = organised_chip(rng, clocks=seed % 3 == 0)
        program, _ = RandomTransfers(rng, chip).build(rng.randint(2, 20))
        trace = simulate(chip, program, values=False).trace
        waits, channels = trace.transfers.waits.values(), trace.transfers.channels.values()
        met["bank"] += any(w.bank_cycles for w in waits)
        met["row"] += any(w.row_cycles for w in waits)
        met["bus"] += any(w.bus_cycles for w in waits)
        met["port"] += any(s.unit.startswith("dma") for s in trace.stalls)
        met["hit"] += any(c.hits for c in channels)
        met["opened"] += any(c.opened for c in channels)
        met["conflict"] += any(c.conflicts for c in channels)
    assert min(met.values()) > QUICK / 5, met


@pytest.mark.parametrize("seed", quick_first(range(20), 3))
def test_the_compiled_form_is_the_same(seed, monkeypatch):
    rng = Random(seed)
    chip = organised_chip(rng, clocks=seed % 3 == 0)
    program, images = RandomTransfers(rng, chip).build(15)
    plain = simulate(chip, program, images, kinds=KINDS)
    monkeypatch.setattr(event_dram, "SMALL_ELEMENTS", 0)
    assert_same(plain, simulate(chip, program, images, kinds=KINDS))


@pytest.mark.parametrize("seed", quick_first(range(20), 5))
def test_a_short_log_of_refusals_is_the_same(seed, monkeypatch):
    """The log has room for a refusal or two, so the arithmetic stops again and again."""
    rng = Random(seed)
    chip = organised_chip(rng, clocks=seed % 3 == 0)
    program, images = RandomTransfers(rng, chip).build(25)
    plain = simulate(chip, program, images, kinds=KINDS)
    monkeypatch.setattr(event_dram, "LOG_LENGTH", 0)
    assert_same(plain, simulate(chip, program, images, kinds=KINDS))


# -- cost in events -------------------------------------------------------------------------------


def _events(monkeypatch, chip, copies) -> int:
    """Return the simpy events of a run."""
    steps = itertools.count()
    step = simpy.Environment.step
    with monkeypatch.context() as patch:
        patch.setattr(simpy.Environment, "step", lambda env: (next(steps), step(env))[1])
        simulate(chip, Program("events", tuple(copies)), values=False)
    return next(steps)


def test_events_do_not_grow_with_the_bursts(monkeypatch):
    """Four queues that meet at banks and buses: as many events for 40 bursts as for 40,000."""
    chip = organised({"queues": 4}, {"size_bytes": 1 << 24})
    counts = set()
    for elements in (40, 400, 40_000):
        copies = [
            move(dram(q * (1 << 22), (8, elements)), dram(q * (1 << 22) + 16, (8, elements)), q)
            for q in range(4)
        ]
        counts.add(_events(monkeypatch, chip, copies))
    assert len(counts) == 1, counts


def test_events_do_not_grow_where_queues_meet_at_a_port(monkeypatch):
    """Three queues into one state-buffer bank: they settle among themselves which has its port."""
    chip = organised({"queues": 3}, {"size_bytes": 1 << 20})
    counts = set()
    for elements in (8, 80, 640):
        copies = [move(dram(q * 4160, (1, elements)), bank(0, elements, q * 2560), q)
                  for q in range(3)]  # fmt: skip
        counts.add(_events(monkeypatch, chip, copies))
        trace = simulate(chip, Program("meet", tuple(copies)), values=False).trace
        assert {s.winner for s in trace.stalls} == {"dma"}
    assert len(counts) == 1, counts


def test_events_grow_with_the_bursts_that_may_meet_an_engine_at_a_port(monkeypatch):
    """The arbiter decides at every change of a phase: a few events per burst, however long."""
    events = []
    for size in (16, 64, 1024):
        parts = {"burst_bytes": size, "row_bytes": 4 * size, "interleave_bytes": size}
        chip = organised({"queues": 2}, {"bytes_per_cycle": 8, "size_bytes": 1 << 20}, **parts)
        copies = [move(dram(0, (1, size)), bank(0, size))]
        copies.append(Memset(engine="pooling", target=bank(0, 40, 4096), value=1))
        copies.append(Memset(engine="activation", target=bank(0, 2048, 0), value=1))
        events.append(_events(monkeypatch, chip, copies))
    assert max(events) < 4 * 6 + 40, events
