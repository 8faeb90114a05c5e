"""What the tests of program files share: a layer written by hand, and its inputs as .npy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

LAYER = Path(__file__).resolve().parents[2] / "configs" / "programs" / "layer.txt"


def saved(**arrays: np.ndarray) -> list[str]:
    """Write arrays as NAME.npy; return the options that give them to a program."""
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    return [option for name in arrays for option in ("--input", f"{name}={name}.npy")]


def small_numbers(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return arrays whose products and sums float32 holds exactly, in any order."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-9, 10, shape).astype(np.float32) for shape in shapes]


def layer_inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, w and b."""
    x, w, b = small_numbers(0, (6, 4), (4, 3), (3,))
    return x, w, b


def saved_layer() -> list[str]:
    """Write the layer's inputs; return the options that give them to it."""
    x, w, b = layer_inputs()
    return saved(x=x, w=w, b=b)
