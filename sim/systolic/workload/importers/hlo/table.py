"""The table of HLO opcodes: what each becomes. Calls, loops and branches are `interpret`'s."""

from __future__ import annotations

from systolic.workload.importers.hlo.context import HloRow
from systolic.workload.importers.hlo.elementwise import ELEMENTWISE
from systolic.workload.importers.hlo.gathers import GATHERS
from systolic.workload.importers.hlo.orders import ORDERS
from systolic.workload.importers.hlo.places import PLACES
from systolic.workload.importers.hlo.products import PRODUCTS
from systolic.workload.importers.hlo.reductions import REDUCTIONS

ROWS: dict[str, HloRow] = {**ELEMENTWISE, **PLACES, **GATHERS, **PRODUCTS, **REDUCTIONS, **ORDERS}
