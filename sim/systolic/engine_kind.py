"""The two engines of the simulator by name: how the machine is simulated. A leaf.

`"event"` goes by schedules, `"register"` steps every register. The engines of the chip (activation,
pooling) are another thing: `systolic.hw.units.EngineName`.
"""

from __future__ import annotations

from typing import Literal, get_args

EngineKind = Literal["event", "register"]
ENGINE_KINDS: dict[str, EngineKind] = {kind: kind for kind in get_args(EngineKind)}
