"""Rows of Resize and Upsample: along each axis a place is a sum of some places of the source.

Where the operation `resize` of graphs has the same places and shares, it is made. Other modes
become places that are taken, each times its share, added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow, axis_of
from systolic.workload.importers.onnx.model import OnnxNode
from systolic.workload.importers.onnx.places import taken
from systolic.workload.operations.table import OPERATIONS

COORDINATES = {
    "half_pixel": "half_pixel",
    "pytorch_half_pixel": "half_pixel",
    "asymmetric": "asymmetric",
    "align_corners": "align_corners",
}
NEAREST = {
    "round_prefer_floor": "round_half_down",
    "round_prefer_ceil": "round_half_up",
    "floor": "floor",
    "ceil": "ceil",
}
"""Of graphs' operation `resize`, by ONNX's words."""
ROUNDED: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
TAPS = {"linear": 2, "cubic": 4}


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis: its sizes before and behind, the factor, and the part of it that is seen."""

    size: int
    made: int
    scale: float
    part: tuple[float, float] = (0.0, 1.0)

    def at(self, mode: str) -> Array:
        """Return the coordinate in the source of each place."""
        places, size, made = np.arange(self.made, dtype=np.float64), self.size, self.made
        half = (places + 0.5) / self.scale - 0.5
        if mode == "half_pixel_symmetric":
            return size / 2 * (1 - made / (size * self.scale)) + half
        if mode == "pytorch_half_pixel":
            return half if made > 1 else np.zeros(made)
        if mode == "tf_half_pixel_for_nn":
            return (places + 0.5) / self.scale
        if mode == "align_corners":
            whole = size * self.scale - 1
            return places * (size - 1) / whole if whole > 0 else np.zeros(made)
        if mode == "asymmetric":
            return places / self.scale
        if mode == "tf_crop_and_resize":
            first, last = (each * (size - 1) for each in self.part)
            step = (last - first) / max(made - 1, 1)
            return first + places * step if made > 1 else np.array([(first + last) / 2])
        return half


def _resize(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    dims = at.dims(given[0])
    mode = node.text("mode", "nearest")
    coordinates = _coordinates(node)
    roi, scales, sizes = given[1:4] if node.version > 10 else (None, given[1], None)
    if node.version < 9:
        scales = np.array(node.attributes["scales"], np.float32)
    along = _axes(at, node, dims, scales, sizes)
    if coordinates == "tf_crop_and_resize":
        along = _with_parts(at, node, roi, along, len(dims))
    made = at.sized([along[n].made if n in along else size for n, size in enumerate(dims)])
    along = {n: axis for n, axis in along.items() if (axis.size, axis.scale) != (axis.made, 1.0)
             or axis.part != (0.0, 1.0)}  # fmt: skip
    if not along:
        return given[0]
    if _as_operation(node, mode, coordinates, along):
        return _operation(at, node, given[0], along, made)
    return _sums(at, node, given[0], along)


def _coordinates(node: OnnxNode) -> str:
    if node.version <= 10:
        return "asymmetric"
    return node.text("coordinate_transformation_mode", "half_pixel")


def _axes(
    at: OnnxContext, node: OnnxNode, dims: Sequence[int], scales: ModelValue, sizes: ModelValue
) -> dict[int, _Axis]:
    """Return the axes that get another size, with factors or sizes that are known."""
    rank = len(dims)
    axes = [axis_of(axis, rank) for axis in node.numbers("axes", tuple(range(rank)))]
    if sizes is not None and at.dims(sizes) != (0,):
        wanted = at.numbers(sizes, "sizes")
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        factors = [made / dims[axis] for made, axis in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            one = min(factors) if policy == "not_larger" else max(factors)
            factors = [one] * len(axes)
            wanted = tuple(math.floor(one * dims[axis] + 0.5) for axis in axes)
    elif scales is not None and at.dims(scales) != (0,):
        factors = [float(each) for each in at.known(scales, "factors").reshape(-1)]
        wanted = tuple(
            math.floor(dims[axis] * each) for axis, each in zip(axes, factors, strict=False)
        )
    else:
        raise WorkloadError("needs factors or sizes")
    if len(factors) != len(axes) or min(wanted, default=1) < 1:
        raise WorkloadError(f"{len(axes)} axes of {list(dims)}, sizes {list(wanted)}")
    return {
        axis: _Axis(dims[axis], made, factor)
        for axis, made, factor in zip(axes, wanted, factors, strict=True)
    }


def _with_parts(
    at: OnnxContext, node: OnnxNode, roi: ModelValue, along: dict[int, _Axis], rank: int
) -> dict[int, _Axis]:
    """Return axes with the parts that are seen: all firsts, then all lasts."""
    ends = [float(each) for each in at.known(roi, "a part").reshape(-1)]
    axes = [axis_of(axis, rank) for axis in node.numbers("axes", tuple(range(rank)))]
    return {
        axis: _Axis(along[axis].size, along[axis].made, along[axis].scale, (first, last))
        for axis, first, last in zip(axes, ends[: len(axes)], ends[len(axes) :], strict=True)
    }


def _as_operation(node: OnnxNode, mode: str, coordinates: str, along: dict[int, _Axis]) -> bool:
    """Return whether graphs' own operation does the same."""
    if "resize" not in OPERATIONS or coordinates not in COORDINATES or mode == "cubic":
        return False
    if node.number("antialias") and any(axis.made < axis.size for axis in along.values()):
        return False
    whole = all(math.isclose(axis.scale, axis.made / axis.size) for axis in along.values())
    return whole and not (coordinates == "pytorch_half_pixel" and 1 in _made(along))


def _made(along: dict[int, _Axis]) -> list[int]:
    return [axis.made for axis in along.values()]


def _operation(
    at: OnnxContext, node: OnnxNode, value: ModelValue, along: dict[int, _Axis],
    made: tuple[int, ...],
) -> ModelValue:  # fmt: skip
    axes = sorted(along)
    return at.made(
        "resize",
        [at.whole(value)],
        Shape(at.kind(value), made),
        sizes=tuple(along[axis].made for axis in axes),
        interpolation=node.text("mode", "nearest"),
        axes=tuple(axes),
        coordinates=COORDINATES[_coordinates(node)],
        nearest="floor" if node.version <= 10 else NEAREST[
            node.text("nearest_mode", "round_prefer_floor")
        ],
    )  # fmt: skip


def _sums(
    at: OnnxContext, node: OnnxNode, value: ModelValue, along: dict[int, _Axis]
) -> ModelValue:
    """Take places along one axis after the other, each times its share."""
    found = value
    beyond: Array = np.array(False)
    for axis, each in along.items():
        found = _along(at, node, found, axis, each)
        if _coordinates(node) == "tf_crop_and_resize":
            where = each.at(_coordinates(node))
            out = (where < 0) | (where > each.size - 1)
            rank = len(at.dims(value))
            beyond = beyond | out.reshape([-1 if d == axis else 1 for d in range(rank)])
    if not beyond.any():
        return found
    filled = at.like(node.real("extrapolation_value"), found)
    return at.select(np.broadcast_to(beyond, at.dims(found)), filled, found)


def _along(
    at: OnnxContext, node: OnnxNode, value: ModelValue, axis: int, each: _Axis
) -> ModelValue:
    mode, where = node.text("mode", "nearest"), each.at(_coordinates(node))
    if mode == "nearest":
        version = "floor" if node.version <= 10 else node.text("nearest_mode", "round_prefer_floor")
        nearest = np.clip(ROUNDED[version](where), 0, each.size - 1)
        return taken(at, value, axis, [int(n) for n in nearest])
    if mode not in TAPS:
        raise CannotLowerError(f"the mode {mode}")
    shares = _shares(node, each, where)
    rank = len(at.dims(value))
    total: ModelValue = None
    for n in range(max((row != 0).sum() for row in shares)):
        places = [_nth(row, n) for row in shares]
        part = np.array([row[place] if n < (row != 0).sum() else 0.0
                         for row, place in zip(shares, places, strict=True)])  # fmt: skip
        factors = part.astype(at.shape(value).dtype)
        seen = factors.reshape([-1 if d == axis else 1 for d in range(rank)])
        term = at.binary("multiply", taken(at, value, axis, places), seen)
        total = term if total is None else at.binary("add", total, term)
    return total


def _nth(row: Array, number: int) -> int:
    """Return the place of the n-th share of a row that is not 0; of none the first place."""
    found = np.flatnonzero(row)
    return int(found[number]) if number < len(found) else int(found[0]) if len(found) else 0


def _shares(node: OnnxNode, each: _Axis, where: Array) -> Array:
    """Return the share of each place of the source in each place, float64 [made, size]."""
    mode = node.text("mode", "nearest")
    taps, wide = TAPS[mode], 1.0
    if node.number("antialias"):
        wide = 1 / min(each.scale, 1.0)
    reach = math.ceil(taps / 2 * wide)
    found = np.zeros((each.made, each.size))
    for row, x in enumerate(where):
        places = np.arange(math.floor(x) - reach + 1, math.floor(x) + reach + 1)
        shares = _kernel(mode, np.abs(x - places) / wide, node.real("cubic_coeff_a", -0.75))
        inside = (places >= 0) & (places < each.size)
        if node.number("exclude_outside"):
            shares = np.where(inside, shares, 0.0)
        shares = shares / shares.sum()
        np.add.at(found[row], np.clip(places, 0, each.size - 1), shares)
    return found


def _kernel(mode: str, away: Array, a: float) -> Array:
    """Return the share of a place by its distance (Keys' cubic with its number a)."""
    if mode == "linear":
        return np.asarray(np.maximum(1 - away, 0.0))
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0.0))


RESIZE: dict[str, OnnxRow] = {"Resize": _resize, "Upsample": _resize}
