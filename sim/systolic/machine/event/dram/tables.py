"""The tables of DRAM's channels and banks in the event engine: integers, with names of their rows.

Every table is int64, [row, number]; times are in cycles of the DMA engine. The arithmetic on them
is in `hand`, `control` and `steps`; all of it is plain loops, so that numba can compile it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import ADDRESS_FIELDS, Dram
from systolic.machine.event.dram.near import NearBanks

Table = npt.NDArray[Any]

NEVER = 1 << 60
LONG_AGO = -NEVER

# Rows of `queue`. SIDES: 1 DRAM is the source, 2 the target, 3 both. RUN, LEAD: the descriptor
# fetched last, and the bytes of it that bursts have been taken for; BACK_RUN, BACK: the same for
# writes of a copy with both sides; STOP: end of the copy's descriptors; FETCHED: the cycle in which
# RUN has been fetched; LOOK: the cycle in which more may be taken.
ACTIVE, HELD, SIDES, RUN, LEAD, LEAD_STOP, BACK_RUN, BACK, STOP, FETCHED, LOOK = range(11)
IN_HAND, ON_BUS, FIRST, LAST = range(11, 15)
# REFUSED: the state-buffer port that another queue has, by its number (`steps.port_of`); STALL_*:
# the refusals that are not yet logged: the port, and the cycles from the first to the last.
REFUSED, STALL_PORT, STALL_FROM, STALL_STOP = range(15, 19)
# WIDTH, CYCLES: bytes in a cycle of its copy's bursts, and cycles of a burst; AT_ONCE: how many may
# move. Of the buffer on the chip, HAS_PORTS: bursts ask for them here; FIRST_BANK: the number of
# its bank 0; BANK_BYTES, PORT_BYTES: of a bank, and what passes its port in a cycle (0: any
# number); LANES: how many ports a bank has in a direction. FETCH, OVERLAPS: cycles of a descriptor,
# and whether its bursts are taken meanwhile.
WIDTH, CYCLES, AT_ONCE, HAS_PORTS, FIRST_BANK, BANK_BYTES, PORT_BYTES, LANES = range(19, 27)
FETCH, OVERLAPS = range(27, 29)
# What shares of bandwidths let its copy move: PHASES: cycles after which `pace` repeats (0: any
# number of bytes); LEAST: in a cycle; CREDIT: bytes kept from the cycle before; REST: those that
# this cycle keeps if no port is refused.
PHASES, LEAST, CREDIT, REST = range(29, 33)
BANK_WAIT, ROW_WAIT, BUS_WAIT, QUEUE_ROWS = range(33, 37)

# Rows of `slot`: a place for a burst in hand; queue q has W of them from q * W on. AGE: number in
# the order of taking; LOW, HIGH: bytes of it; UNTIL: the cycle in which the
# phase may end; OPENS: cycles from its activation to its row being open; LEFT: cycles of moving.
PHASE, AGE, ASKED, DESCRIPTOR, WRITES, LOW, HIGH, CHANNEL, GROUP, BANK, ROW = range(11)
GIVEN, UNTIL, OPENS, START, LEFT, AFTER = range(11, 17)
# PORT_LOW, PORT_HIGH: banks needed in this cycle (-1: none), in partition PORT_LANE; NEAR_LOW,
# NEAR_HIGH: the bytes of the partition that move; STANDS: older bursts of the queue leave it no
# room at a port, or shares of bandwidths too few bytes. BEAT: the last cycle in which it moved,
# with the banks used in it, and their partition.
PORT_LOW, PORT_HIGH, PORT_LANE, NEAR_LOW, NEAR_HIGH, STANDS = range(17, 23)
BEAT, BEAT_LOW, BEAT_HIGH, BEAT_LANE, SLOT_ROWS = range(23, 28)

# Values of PHASE, in the order in which a burst goes through them.
FREE, WANTS_BANK, WANTS_ROW, OPENING, WANTS_BUS, MOVING = range(6)

# Rows of `bank`. HOLDER: a slot, or -1. HEAD, TAIL: the slots that want it, joined by AFTER.
OPEN_ROW, HOLDER, HEAD, TAIL, BANK_ACTIVATED, LISTED, BANK_ROWS = range(7)

# Rows of `group`.
GROUP_ACTIVATED, GROUP_BEGAN, GROUP_ROWS = range(3)

# Rows of `channel`. BUS: the slot that has it, or -1; LISTS: how many banks are in `work`; NEXT:
# the cycle in which something may change; ACT_4 to ACT_1: the last four activations.
BUS, LISTS, BANKS_HELD, NEXT, BEGAN, ENDED, WROTE, DUE, REFRESHED = range(9)
ACT_4, ACT_3, ACT_2, ACT_1 = range(9, 13)
HITS, OPENED, CONFLICTS, BUSY, CHANNEL_ROWS = range(13, 18)

# Rows of `using`, by bank of the result buffer: when its port was in use last, from which cycle to
# which.
USE_FROM, USE_STOP, USING_ROWS = range(3)

# Rows of `log`. LOG_QUEUE: -1 if it is not a refusal, but tells when a port of the result buffer
# was in use.
LOG_QUEUE, LOG_PORT, LOG_FROM, LOG_STOP, LOG_ROWS = range(5)

# Rows of `runs`, the descriptors, in bytes; PARTITION: of the side that lies on the chip.
SOURCE, TARGET, LENGTH, PARTITION, RUN_ROWS = range(5)

# Entries of `misc`.
LOGGED, TAKEN, MISC_ROWS = range(3)

# Fields of an address, as `Fixed.order` numbers them.
COLUMN, BANK_GROUP, BANK_IN_GROUP, ROW_FIELD = range(4)


class Fixed(NamedTuple):
    """Chip data.

    controller_bytes: of the DRAM behind each controller; its addresses follow the addresses of the
    one before. channels: of each. state_banks: banks of all state buffers; banks of result buffers
    are numbered behind them. port_lanes: how many ports a bank of a state buffer has in a direction
    at most: one for each partition, or one for all. reserve: entries that a step may add to the
    log. arbitrates: the queues settle among themselves which has a port.
    """

    controller_bytes: int
    burst_bytes: int
    interleave_bytes: int
    channels: int
    banks: int
    groups: int
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    hash_channels: bool
    hash_banks: bool
    outstanding: int
    in_order: bool
    patience: int
    activate_cycles: int
    precharge_cycles: int
    active: int
    row_cycle: int
    activate_gap: int
    activate_gap_in_group: int
    four_activates: int
    burst_gap: int
    burst_gap_in_group: int
    write_to_read: int
    read_to_write: int
    refresh_interval: int
    refresh: int
    state_banks: int
    port_lanes: int
    reserve: int
    arbitrates: bool

    @classmethod
    def of(cls, dram: Dram, banks: NearBanks, *, controllers: int, queues: int) -> Fixed:
        """Return what the arithmetic needs of controllers of such DRAM, which has an organisation.

        queues: how many there are.
        """
        parts = dram.organisation
        assert parts is not None
        banks_of_beat = dram.bytes_per_cycle // parts.channels // banks.least_result_bytes + 2
        all_banks = parts.channels * parts.banks
        return cls(
            controller_bytes=dram.size_bytes,
            burst_bytes=parts.burst_bytes,
            interleave_bytes=parts.interleave_bytes,
            channels=parts.channels,
            banks=parts.banks,
            groups=parts.bank_groups,
            order=tuple(ADDRESS_FIELDS.index(name) for name in parts.address_order),
            sizes=(
                parts.row_bytes // parts.burst_bytes,
                parts.bank_groups,
                parts.banks // parts.bank_groups,
                dram.size_bytes // (all_banks * parts.row_bytes),
            ),
            hash_channels=parts.hash_channels and parts.channels > 1,
            hash_banks=parts.hash_banks,
            outstanding=parts.outstanding,
            in_order=parts.scheduling == "fcfs",
            patience=parts.patience_cycles or NEVER,
            activate_cycles=parts.activate_cycles,
            precharge_cycles=parts.precharge_cycles,
            active=parts.row_active_cycles,
            row_cycle=parts.row_cycle_cycles,
            activate_gap=parts.activate_gap_cycles,
            activate_gap_in_group=parts.activate_gap_in_group_cycles,
            four_activates=parts.four_activates_cycles,
            burst_gap=parts.burst_gap_cycles,
            burst_gap_in_group=parts.burst_gap_in_group_cycles,
            write_to_read=parts.write_to_read_cycles,
            read_to_write=parts.read_to_write_cycles,
            refresh_interval=parts.refresh_interval_cycles,
            refresh=parts.refresh_cycles,
            state_banks=banks.state_banks,
            port_lanes=banks.port_lanes,
            reserve=2 * queues + controllers * parts.channels * banks_of_beat,
            arbitrates=True,
        )


class Tables(NamedTuple):
    """All the arithmetic works on.

    pace: [queue, cycle], the bytes that shares of bandwidths let a copy move, which repeat.
    queue, slot, bank, group, channel: what is under way; spare: [queue, n], free slots; moving:
    [queue, n], slots on a bus; work: [channel, n], banks that work or are wanted; port: [direction,
    bank], cycles in which state-buffer ports were used, of all partitions together; using: when
    banks of the result buffer were, as sums may pass over that; marks: [direction, port], the queue
    that used a port last, as a number that grows with every step, the next one in `marked`;
    misc: how many entries are logged, and bursts taken; log: [row, entry], refusals and uses in the
    order in which they ended; runs: [row, descriptor]; end: the cycle in which each descriptor
    ended, or empty.
    """

    fixed: Fixed
    queue: Table
    pace: Table
    slot: Table
    bank: Table
    group: Table
    channel: Table
    spare: Table
    moving: Table
    work: Table
    port: Table
    using: Table
    marks: Table
    marked: Table
    misc: Table
    log: Table
    runs: Table
    end: Table

    @classmethod
    def empty(
        cls, dram: Dram, banks: NearBanks, *, controllers: int, queues: int, log_length: int
    ) -> Tables:
        """Return the tables of a chip before anything is under way, and without descriptors."""
        fixed = Fixed.of(dram, banks, controllers=controllers, queues=queues)
        ports = fixed.state_banks * fixed.port_lanes + banks.result_banks
        channels = controllers * fixed.channels
        slots = np.arange(queues * fixed.outstanding).reshape(queues, fixed.outstanding)
        return cls(
            fixed=fixed,
            queue=np.zeros((QUEUE_ROWS, queues), np.int64),
            pace=np.zeros((queues, 1), np.int64),
            slot=_filled(SLOT_ROWS, queues * fixed.outstanding, {BEAT: -1}),
            bank=_filled(
                BANK_ROWS,
                channels * fixed.banks,
                {OPEN_ROW: -1, HOLDER: -1, HEAD: -1, TAIL: -1, BANK_ACTIVATED: LONG_AGO},
            ),
            group=_filled(
                GROUP_ROWS,
                channels * fixed.groups,
                {GROUP_ACTIVATED: LONG_AGO, GROUP_BEGAN: LONG_AGO},
            ),
            channel=_filled(
                CHANNEL_ROWS,
                channels,
                {
                    BUS: -1,
                    NEXT: NEVER,
                    BEGAN: LONG_AGO,
                    ENDED: LONG_AGO,
                    DUE: fixed.refresh_interval or NEVER,
                    ACT_4: LONG_AGO,
                    ACT_3: LONG_AGO,
                    ACT_2: LONG_AGO,
                    ACT_1: LONG_AGO,
                },
            ),
            spare=slots.astype(np.int64),
            moving=np.zeros((queues, min(channels, fixed.outstanding)), np.int64),
            work=np.zeros((channels, fixed.banks), np.int64),
            port=np.zeros((2, fixed.state_banks), np.int64),
            using=np.zeros((USING_ROWS, banks.result_banks), np.int64),
            marks=np.zeros((2, ports), np.int64),
            marked=np.zeros(1, np.int64),
            misc=np.zeros(MISC_ROWS, np.int64),
            log=np.zeros((LOG_ROWS, log_length + fixed.reserve), np.int64),
            runs=np.zeros((RUN_ROWS, 0), np.int64),
            end=np.zeros(0, np.int64),
        )

    def copy(self) -> Tables:
        """Return tables whose entries under way may change without changing these."""
        return self._replace(
            queue=self.queue.copy(),
            slot=self.slot.copy(),
            bank=self.bank.copy(),
            group=self.group.copy(),
            channel=self.channel.copy(),
            spare=self.spare.copy(),
            moving=self.moving.copy(),
            work=self.work.copy(),
            port=self.port.copy(),
            using=self.using.copy(),
            misc=self.misc.copy(),
        )


def _filled(rows: int, count: int, values: dict[int, int]) -> Table:
    table = np.zeros((rows, count), np.int64)
    for row, value in values.items():
        table[row] = value
    return table
