"""The table of ONNX operators: what each becomes. `Constant`, `If` and functions are `interpret`'s.

An operator without a row that ONNX defines by others, as a function, becomes these.
"""

from __future__ import annotations

from systolic.workload.importers.onnx.context import OnnxRow
from systolic.workload.importers.onnx.elementwise import ELEMENTWISE
from systolic.workload.importers.onnx.images import IMAGES
from systolic.workload.importers.onnx.norms import NORMS
from systolic.workload.importers.onnx.places import PLACES
from systolic.workload.importers.onnx.products import PRODUCTS
from systolic.workload.importers.onnx.quantised import QUANTISED
from systolic.workload.importers.onnx.recurrent import RECURRENT
from systolic.workload.importers.onnx.reductions import REDUCTIONS
from systolic.workload.importers.onnx.resize import RESIZE

ROWS: dict[str, OnnxRow] = {
    **ELEMENTWISE,
    **PLACES,
    **PRODUCTS,
    **IMAGES,
    **REDUCTIONS,
    **NORMS,
    **RESIZE,
    **QUANTISED,
    **RECURRENT,
}
