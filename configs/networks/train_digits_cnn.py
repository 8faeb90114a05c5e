"""Train the weights of digits_cnn with numpy alone: the same files from the same seed.

    python configs/networks/train_digits_cnn.py

Two convolutions of 3 x 3 with ramp, the largest of 2 x 2 pixels, and a convolution as large as what
is left, which gives the scores: softmax, cross-entropy, Adam, in batches of 64. Every fifth image
(numbers 4, 9, 14, ...) is held out, 359 of 1,797; the writers are the same as of the others.
Weights are written as .npy beside this file; the run takes them as bf16.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
FIRST, SECOND, EPOCHS, BATCH, FIFTH = 16, 32, 40, 64, 5
DECAY = 1e-4
LEAST = 1e-8
Arrays = dict[str, Any]


def initial(rng: np.random.Generator) -> Arrays:
    """Return weights [height, width, channels, filters] as He et al. make them, biases of 0."""
    shapes = {"1": (3, 3, 1, FIRST), "2": (3, 3, FIRST, SECOND), "3": (4, 4, SECOND, 10)}
    found: Arrays = {}
    for name, shape in shapes.items():
        scale = np.sqrt(2 / np.prod(shape[:3]))
        found[f"w{name}"] = (rng.standard_normal(shape) * scale).astype(np.float32)
        found[f"b{name}"] = np.zeros(shape[3], np.float32)
    return found


def windows(images: Any, size: int, padding: int) -> Any:
    """Return [images, height, width, taps * channels]: the window of each result."""
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    return seen.transpose(0, 1, 2, 4, 5, 3).reshape(*seen.shape[:3], -1)


def spread(back: Any, weights: Any, padding: int) -> Any:
    """Return the gradient of a convolution's images from that of its results."""
    size, _, _, filters = weights.shape
    turned = weights[::-1, ::-1].transpose(0, 1, 3, 2).reshape(size * size * filters, -1)
    return windows(back, size, size - 1 - padding) @ turned


def scores(weights: Arrays, images: Any) -> Arrays:
    """Return all that a gradient needs: windows, results, and the scores [images, 10]."""
    kept: Arrays = {"windows1": windows(images, 3, 1)}
    kept["made1"] = np.maximum(_product(kept["windows1"], weights, "1"), 0)
    kept["windows2"] = windows(kept["made1"], 3, 1)
    kept["made2"] = np.maximum(_product(kept["windows2"], weights, "2"), 0)
    count, height, width, filters = kept["made2"].shape
    fours = kept["made2"].reshape(count, height // 2, 2, width // 2, 2, filters)
    kept["pooled"] = fours.max(axis=(2, 4))
    kept["windows3"] = windows(kept["pooled"], 4, 0)
    kept["scores"] = _product(kept["windows3"], weights, "3").reshape(count, 10)
    return kept


def _product(seen: Any, weights: Arrays, name: str) -> Any:
    return seen @ weights[f"w{name}"].reshape(-1, weights[f"b{name}"].size) + weights[f"b{name}"]


def gradients(weights: Arrays, images: Any, digits: Any) -> Arrays:
    """Return the gradients of the mean cross-entropy."""
    kept = scores(weights, images)
    powers = np.exp(kept["scores"] - kept["scores"].max(axis=1, keepdims=True))
    error = (powers / powers.sum(axis=1, keepdims=True) - np.eye(10)[digits]) / len(images)
    back = error.astype(np.float32).reshape(-1, 1, 1, 10)
    found = _slopes(weights, kept, "3", back)
    pooled = spread(back, weights["w3"], 0)
    large = pooled.repeat(2, axis=1).repeat(2, axis=2)
    largest = kept["pooled"].repeat(2, axis=1).repeat(2, axis=2)
    back = large * (kept["made2"] == largest) * (kept["made2"] > 0)
    found |= _slopes(weights, kept, "2", back)
    back = spread(back, weights["w2"], 1) * (kept["made1"] > 0)
    return found | _slopes(weights, kept, "1", back)


def _slopes(weights: Arrays, kept: Arrays, name: str, back: Any) -> Arrays:
    seen, rows = kept[f"windows{name}"], back.reshape(-1, back.shape[-1])
    slope = seen.reshape(len(rows), -1).T @ rows
    return {f"w{name}": slope.reshape(weights[f"w{name}"].shape), f"b{name}": rows.sum(axis=0)}


def trained(images: Any, digits: Any) -> Arrays:
    """Return the weights after all epochs of Adam."""
    rng = np.random.default_rng(2024)
    weights, step = initial(rng), 0
    first = {name: np.zeros_like(each) for name, each in weights.items()}
    second = {name: np.zeros_like(each) for name, each in weights.items()}
    for epoch in range(EPOCHS):
        rate = 2e-3 * (1 - epoch / EPOCHS)
        order = rng.permutation(len(images))
        for start in range(0, len(images), BATCH):
            step, some = step + 1, order[start : start + BATCH]
            found = gradients(weights, images[some], digits[some])
            for name, slope in found.items():
                slope = slope + DECAY * weights[name]
                first[name] = 0.9 * first[name] + 0.1 * slope
                second[name] = 0.999 * second[name] + 0.001 * slope**2
                root = np.sqrt(second[name] / (1 - 0.999**step)) + LEAST
                weights[name] = weights[name] - rate * first[name] / (1 - 0.9**step) / root
    return weights


def main() -> None:
    """Train, and write the weights. Pixels are 0 to 16; their scale goes into the first weights."""
    pixels = np.loadtxt(DATA / "digits.csv", delimiter=",").astype(np.float32)
    digits = np.loadtxt(DATA / "digits_labels.csv", dtype=int)
    images = pixels.reshape(-1, 8, 8, 1)
    used = np.arange(len(images)) % FIFTH != FIFTH - 1
    weights = trained(images[used] / 16, digits[used])
    right = scores(weights, images[~used] / 16)["scores"].argmax(axis=1) == digits[~used]
    print(f"{right.mean():.4f} of the images held out")
    weights["w1"] = weights["w1"] / 16
    for name, values in weights.items():
        np.save(HERE / f"digits_cnn_{name}.npy", values.astype(np.float32))


if __name__ == "__main__":
    main()
