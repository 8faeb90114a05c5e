"""What structural zeros make of infinities and NaN: the sums of a convolution done as lines.

The array multiplies all pixels of a stretch with the weights of all its windows, and with zeros
where a window does not see a pixel; zero times an infinity is a NaN. What is turned or moved on the
way is multiplied by the ones and zeros of an identity likewise, unless it passes the array.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.compiler.arithmetic import KTile, Lines, LineWork


def with_spread(work: LineWork, source: Array, weights: Array, sums: Array) -> Array:
    """Return the sums of a convolution or product, [..., filters], as lines leave them.

    source: images, or rows; weights: [height, width, channels of a group, filters], or a matrix.
    """
    lines = work.lines
    if np.isfinite(source).all() and np.isfinite(weights).all():
        return sums
    shown = lines.source
    dims = (shown.count, shown.height, shown.width, shown.channels)
    images = source.astype(np.float64).reshape(dims)
    made = sums.copy().reshape(lines.result.count, lines.result.height, lines.result.width, -1)
    weights = weights.astype(np.float64).reshape(*lines.windows.size, -1, weights.shape[-1])
    dense = _in_one_group(weights, lines.groups)
    tiles = [(each, _bands(lines, each, dense)) for each in work.k_tiles]
    with np.errstate(invalid="ignore", over="ignore"):
        for tile in lines.tiles():
            places = [_place(lines, number) for number in tile]
            held = np.stack([_held(lines, images, *place) for place in places])
            for first in range(0, lines.width, lines.stretch):
                count = min(lines.stretch, lines.width - first)
                found = sum(
                    _turned(_seen(lines, held, each, first), passes=work.passes) @ bands
                    for each, bands in tiles
                )
                spread = np.asarray(found).reshape(len(places), lines.stretch, -1)[:, :count]
                for line, (image, strip, row) in enumerate(places):
                    at = strip * lines.width + first
                    mine = made[image, row, at : at + count]
                    odd = ~np.isfinite(spread[line])
                    mine[odd] = spread[line][odd]
    return made.reshape(sums.shape)


def _in_one_group(weights: Array, groups: int) -> Array:
    """Return the weights of all channels: zeros between a group's and the filters of another."""
    height, width, channels, filters = weights.shape
    own = filters // groups
    dense = np.zeros((height, width, groups * channels, filters))
    for group in range(groups):
        mine = slice(group * own, (group + 1) * own)
        dense[:, :, group * channels : (group + 1) * channels, mine] = weights[..., mine]
    return dense


def _place(lines: Lines, number: int) -> tuple[int, int, int]:
    """Return (image, strip, row of results) of a line."""
    block, row = divmod(number, lines.result.height)
    return (*divmod(block, lines.strips), row)


def _held(lines: Lines, images: Array, image: int, strip: int, row: int) -> Array:
    """Return what a line's partition holds: the rows that its windows see, zeros outside."""
    windows, found = lines.windows, np.zeros(lines.held)
    (down, across), (top, _, left, _) = windows.stride, windows.padding
    begin = strip * lines.width * across - left
    first, stop = max(0, begin), min(lines.source.width, begin + lines.seen)
    for tap in range(windows.size[0]):
        y = row * down + tap * windows.dilation[0] - top
        if 0 <= y < lines.source.height and stop > first:
            at = tap * lines.row_elements + (first - begin) * lines.source.channels
            pixels = images[image, y, first:stop].reshape(-1)
            found[at : at + pixels.size] = pixels
    return found


def _seen(lines: Lines, held: Array, k_tile: KTile, first: int) -> Array:
    """Return the elements of a K-tile that the windows from `first` on see, [lines, K]."""
    channels = lines.source.channels
    pixels = np.arange(lines.reach)[:, None] * channels + k_tile.channel
    own = (pixels + np.arange(k_tile.channels)).reshape(-1)
    begin = first * lines.windows.stride[1] * channels
    taps = (np.arange(k_tile.tap, k_tile.tap + k_tile.taps) * lines.row_elements)[:, None]
    return np.asarray(held[:, (taps + begin + own).reshape(-1)])


def _turned(elements: Array, *, passes: bool) -> Array:
    """Return rows as a product with an identity leaves them: what is not finite spreads."""
    if passes:
        return elements
    odd = ~np.isfinite(elements)
    spoiled = odd.sum(axis=0) - odd > 0
    return np.where(spoiled, np.nan, elements)


def _bands(lines: Lines, k_tile: KTile, weights: Array) -> Array:
    """Return the weights of all windows of a stretch, zeros between, [K, windows * filters]."""
    windows, filters = lines.windows, weights.shape[3]
    wide = np.zeros((k_tile.taps, lines.reach, k_tile.channels, filters))
    taps = slice(k_tile.tap, k_tile.tap + k_tile.taps)
    own = weights[taps, :, k_tile.channel : k_tile.channel + k_tile.channels]
    wide[:, : windows.extents[1] : windows.dilation[1]] = own
    wide = _turned(wide.reshape(-1, filters), passes=False).reshape(wide.shape)
    found = []
    for window in range(lines.stretch):
        moved = np.zeros_like(wide)
        step = window * windows.stride[1]
        moved[:, step:] = wide[:, : lines.reach - step]
        found.append(_turned(moved.reshape(-1, filters), passes=False))
    return np.stack(found, axis=1).reshape(-1, lines.stretch * filters)
