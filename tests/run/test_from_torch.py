"""Is the value right? Modules of PyTorch on the machine, against PyTorch itself."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

import systolic
from systolic.errors import SystolicError

NEAR = 2e-4


class Tagger(nn.Module):
    """Words to two results, one of them whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 16)
        self.mixed = nn.Conv1d(16, 16, 3, padding=1, groups=2)
        self.norm, self.last = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.words(words)
        x = x + nn.functional.silu(self.mixed(x.transpose(1, 2))).transpose(1, 2)
        scores = self.last(self.norm(x))
        return scores, scores.argmax(-1)


def test_results_are_those_of_torch() -> None:
    torch.manual_seed(0)
    module = Tagger().eval()
    words = torch.randint(0, 30, (2, 7))
    result = systolic.from_torch(module, words, chip="ideal_128x128")
    wanted = [each.detach().numpy() for each in module(words)]
    scores, places = result.outputs.values()
    np.testing.assert_allclose(scores, wanted[0], rtol=0, atol=NEAR * np.abs(wanted[0]).max())
    assert places.dtype == np.int64
    np.testing.assert_array_equal(places, wanted[1])
    assert result.summary["values"]["equal"]
    assert list(result.summary["torch"]) == list(result.outputs)
    assert max(result.summary["torch"].values()) < NEAR


class Moved(nn.Module):
    """Does to its argument what the test says, once it is exported as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) if torch.compiler.is_compiling() else torch.tanh(x) + 0.5


def test_a_difference_from_torch_is_said() -> None:
    """The module gives something else when it is exported: the summary says how far off it is."""
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    result = systolic.from_torch(Moved(), x, chip="ideal_4x4")
    (difference,) = result.summary["torch"].values()
    largest = float(np.abs(np.tanh(x.numpy()) + 0.5).max())
    assert difference == pytest.approx(0.5 / largest, rel=1e-5)


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if float(x.sum()) > 0 else x


def test_what_torch_cannot_export_is_said_in_a_line() -> None:
    with pytest.raises(SystolicError) as error:
        systolic.from_torch(Branching(), torch.ones(3), chip="ideal_4x4")
    assert str(error.value).startswith("PyTorch cannot export the module (")
    assert "\n" not in str(error.value)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(SystolicError, match="needs the package onnxscript") as error:
        systolic.from_torch(nn.Identity(), torch.ones(3), chip="ideal_4x4")
    assert "an extra of systolic: torch" in str(error.value)
