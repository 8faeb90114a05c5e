"""Links, switches and collectives: a network whose every packet has its cycle.

`run` sends messages, `collective` runs a collective. Not here: chips and hosts at the nodes.
"""

from systolic.network.collectives.collective import collective
from systolic.network.simulate import run

__all__ = ["collective", "run"]
