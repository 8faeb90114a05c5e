"""Does a buffer wait for all earlier users of its bytes?"""

from __future__ import annotations

from support.chips import ideal_chip
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.streams.buffers import BufferSize
from systolic.compiler.streams.stage import Stage, TileBuffer
from systolic.workload.options import Options


def test_what_was_taken_over_in_part_is_waited_for_in_the_rest() -> None:
    chip = ideal_chip(4, 4, state_buffer={"bytes_per_partition": 64, "banks": 1})
    stage = Stage(chip, Options(), {}, Drafts())

    def placed(name: str, size: int) -> TileBuffer:
        found = stage.buffers([name], [BufferSize(size)])
        assert found is not None
        return found[0]

    whole = placed("whole", 60)
    whole.region.write(0, "activation")
    over, behind = placed("over", 20), placed("behind", 20)
    assert (over.first, behind.first) == (0, 20)
    over.region.write(1, "activation")
    assert over.region.before == behind.region.before == whole.region.writers
    again = placed("again", 30)  # no room beside these: over all three
    assert {ref.step for ref in again.region.before} == {0, 1}
