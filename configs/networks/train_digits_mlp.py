"""Train the weights of digits_mlp with numpy alone: the same files from the same seed.

    python configs/networks/train_digits_mlp.py

A layer of 128 with ramp, then one of 10: softmax, cross-entropy, Adam, in batches of 64. Every
fifth image (numbers 4, 9, 14, ...) is held out, 359 of 1,797; the writers are the same as of the
others. Weights are written as .npy beside this file; the run takes them as bf16.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
HIDDEN, EPOCHS, BATCH, FIFTH = 128, 60, 64, 5
DECAY = 1e-4
LEAST = 1e-8
Arrays = dict[str, Any]


def initial(rng: np.random.Generator) -> Arrays:
    """Return weights as large as He et al. make them, and biases of 0."""
    return {
        "w1": rng.standard_normal((64, HIDDEN)) * np.sqrt(2 / 64),
        "b1": np.zeros(HIDDEN),
        "w2": rng.standard_normal((HIDDEN, 10)) * np.sqrt(2 / HIDDEN),
        "b2": np.zeros(10),
    }


def scores(weights: Arrays, images: Any) -> tuple[Any, Any]:
    """Return the hidden layer [images, 128] and the scores [images, 10]."""
    hidden = np.maximum(images @ weights["w1"] + weights["b1"], 0)
    return hidden, hidden @ weights["w2"] + weights["b2"]


def gradients(weights: Arrays, images: Any, digits: Any) -> Arrays:
    """Return the gradients of the mean cross-entropy."""
    hidden, found = scores(weights, images)
    powers = np.exp(found - found.max(axis=1, keepdims=True))
    error = (powers / powers.sum(axis=1, keepdims=True) - np.eye(10)[digits]) / len(images)
    back = (error @ weights["w2"].T) * (hidden > 0)
    return {
        "w1": images.T @ back, "b1": back.sum(axis=0),
        "w2": hidden.T @ error, "b2": error.sum(axis=0),
    }  # fmt: skip


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
    pixels = np.loadtxt(DATA / "digits.csv", delimiter=",")
    digits = np.loadtxt(DATA / "digits_labels.csv", dtype=int)
    used = np.arange(len(pixels)) % FIFTH != FIFTH - 1
    weights = trained(pixels[used] / 16, digits[used])
    weights["w1"] = weights["w1"] / 16
    for name, values in weights.items():
        np.save(HERE / f"digits_mlp_{name}.npy", values.astype(np.float32))


if __name__ == "__main__":
    main()
