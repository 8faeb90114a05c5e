"""The tables of DRAM's arithmetic: which row of which array holds what. Times in DMA cycles."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Table = npt.NDArray[Any]
"""int64, [row, queue] (or [row, bank], [row, channel]); the rows are named below."""

# Rows of `fixed`, which has no second axis.
BURST_BYTES, INTERLEAVE, CHANNELS, BANKS, ROW_BYTES, WIDTH, BURST_CYCLES = range(7)
ACTIVATE, PRECHARGE, FETCH, PORT_BYTES, ARBITRATES = range(7, 12)

# ARBITRATES: whether the queues settle among themselves who has a state-buffer port.

# Rows of `queue`. RUN, STOP: descriptor in hand, end of the copy; READ, WRITTEN: bytes of it that
# are through; SIDES: 1 DRAM is the source, 2 the target, 3 both; WRITES: whether the burst in hand
# is a write; LOW, HIGH: its bytes, counted from the descriptor's first; BEAT: the last cycle in
# which it moved, with the bytes on the chip that moved in it.
PHASE, LEFT, AGE, HELD, RUN, STOP, READ, WRITTEN, SIDES, WRITES, LOW, HIGH = range(12)
CHANNEL, BANK, ROW, FIRST, LAST, BEAT, BEAT_LOW, BEAT_HIGH = range(12, 20)
# PORT_LOW, PORT_HIGH: banks wanted in this cycle (-1: none); REFUSED: the one that another queue
# has; STALL_*: the refusals that are not yet logged: of which bank, from which cycle to which.
PORT_LOW, PORT_HIGH, REFUSED, STALL_BANK, STALL_FROM, STALL_STOP = range(20, 26)
BANK_WAIT, ROW_WAIT, BUS_WAIT, QUEUE_ROWS = range(26, 30)

# Values of PHASE. A burst is asked for in the first cycle in which nothing is LEFT of the fetch.
IDLE, FETCHING, WANTS_BANK, OPENING, WANTS_BUS, MOVING = range(6)

# Rows of `bank` and of `channel`; -1: no row is open, nobody holds it.
OPEN_ROW, BANK_HOLDER, BANK_ROWS = range(3)
BUS_HOLDER, HITS, OPENED, CONFLICTS, BUSY, CHANNEL_ROWS = range(6)

# Rows of `log`: refusals, in the order in which they ended; `logged[0]`: how many.
LOG_QUEUE, LOG_BANK, LOG_FROM, LOG_STOP, LOG_ROWS = range(5)
