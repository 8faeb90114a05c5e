"""Quantise the weights of digits_cnn to int8 with numpy alone: the same files every time.

    python configs/networks/quantise_digits_cnn.py

Each filter has a scale, so that its largest weight is 127; the filters of the last layer share one,
since their scores are compared. The results of a layer have one scale, so that the largest that the
training images give is 127. Pixels are whole numbers from 0 to 16 already. What leaves a layer is
(sums + bias) * scale: the bias is an int32 in units of the sums, the scale takes these to the units
of the results. Arrays are written as .npy beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
MOST, FIFTH = 127, 5
Arrays = dict[str, Any]


def windows(images: Any, size: int, padding: int) -> Any:
    """Return [images, height, width, taps * channels]: the window of each result."""
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    return seen.transpose(0, 1, 2, 4, 5, 3).reshape(*seen.shape[:3], -1)


def weights_of(name: str, *, alone: bool) -> tuple[Any, Any, Any]:
    """Return whole weights, the scales of their filters, and the biases of a layer.

    alone: each filter has a scale of its own.
    """
    weights, bias = (np.load(HERE / f"digits_cnn_{kind}{name}.npy") for kind in "wb")
    largest = np.abs(weights).max(axis=(0, 1, 2) if alone else None)
    scales = np.broadcast_to(np.float64(largest) / MOST, bias.shape)
    return np.rint(weights / scales), scales, bias.astype(np.float64)


def quantised(images: Any) -> Arrays:
    """Return the arrays of all layers; images: [images, 8, 8, 1], those that scales come from."""
    found: Arrays = {}
    units, now = 1.0, images.astype(np.float64)
    for name, padding in (("1", 1), ("2", 1), ("3", 0)):
        weights, scales, bias = weights_of(name, alone=name != "3")
        found[f"w{name}"] = weights.astype(np.int8)
        found[f"b{name}"] = np.rint(bias / (scales * units)).astype(np.int32)
        if name == "3":
            break
        sums = windows(now, len(weights), padding) @ weights.reshape(-1, bias.size)
        made = np.maximum((sums + found[f"b{name}"]) * scales * units, 0)
        after = made.max() / MOST
        found[f"s{name}"] = (scales * units / after).astype(np.float32)
        now, units = np.clip(np.rint(made / after), 0, MOST), after
        if name == "2":
            count, height, width, filters = now.shape
            fours = now.reshape(count, height // 2, 2, width // 2, 2, filters)
            now = fours.max(axis=(2, 4))
    return found


def main() -> None:
    """Quantise, with scales from the images that training has seen, and write the arrays."""
    pixels = np.loadtxt(DATA / "digits.csv", delimiter=",").reshape(-1, 8, 8, 1)
    used = np.arange(len(pixels)) % FIFTH != FIFTH - 1
    for name, values in quantised(pixels[used]).items():
        np.save(HERE / f"digits_cnn_int8_{name}.npy", values)


if __name__ == "__main__":
    main()
