"""Links, switches and collectives: a network whose every packet has its cycle.

`run` sends messages, `collective` runs a collective, `exchange` gives its values. Not here: chips
and hosts at the nodes.
"""

from systolic.network.collectives.collective import collective
from systolic.network.collectives.values import exchange
from systolic.network.simulate import run

__all__ = ["collective", "exchange", "run"]
