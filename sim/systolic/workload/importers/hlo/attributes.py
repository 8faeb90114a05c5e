"""Attributes of HLO instructions, read from their text: numbers, windows, slices, names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from systolic.errors import shortened
from systolic.workload.importers.hlo.module import HloInstruction
from systolic.workload.importers.windows import ModelWindow

_INTEGER = re.compile(r"-?\d+")
_WINDOW_KEY = re.compile(r"(\w+)=([\w\-]+)")
_SLICE = re.compile(r"\[(\d+):(\d+)(?::(\d+))?\]")


class AttributeFaultError(Exception):
    """An attribute that is missing or malformed; the reader of the text adds the place."""


def fault(message: str) -> NoReturn:
    """Raise AttributeFaultError."""
    raise AttributeFaultError(message)


def text_of(made: HloInstruction, key: str) -> str:
    """Return the text of an attribute that must be there."""
    if key not in made.attributes:
        fault(f"{made.opcode} needs {key}=")
    return made.attributes[key]


def numbers(
    made: HloInstruction, key: str, default: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """Return the numbers of ``{0,1}``."""
    if key not in made.attributes and default is not None:
        return default
    text = text_of(made, key)
    inside = text[1:-1].strip() if text.startswith("{") and text.endswith("}") else None
    parts = inside.split(",") if inside else []
    if inside is None or not all(_INTEGER.fullmatch(part.strip()) for part in parts):
        fault(f"{key}= needs numbers such as {{0,1}}, found {shortened(text)}")
    return tuple(int(part) for part in parts)


def number(made: HloInstruction, key: str, default: int | None = None) -> int:
    """Return the number of an attribute."""
    if key not in made.attributes and default is not None:
        return default
    text = text_of(made, key)
    if not _INTEGER.fullmatch(text):
        fault(f"{key}= needs a number, found {shortened(text)}")
    return int(text)


def names(made: HloInstruction, key: str) -> tuple[str, ...]:
    """Return the computations of ``%name`` or ``{%one, %other}``."""
    text = text_of(made, key).strip("{}")
    return tuple(part.strip().removeprefix("%") for part in text.split(","))


def window(made: HloInstruction, rank: int) -> ModelWindow:
    """Return the window of ``{size=3x3 stride=2x2 pad=1_1x0_0 ...}`` over that many dimensions."""
    text = made.attributes.get("window", "{}")
    given = dict(_WINDOW_KEY.findall(text))
    ones = "x".join(["1"] * rank)
    size = _each(given.get("size", ones), rank)
    pads = [_pad(part) for part in given.get("pad", "x".join(["0_0"] * rank)).split("x")]
    if len(pads) != rank:
        fault(f"window: pad= needs {rank} pairs such as 1_1, found {shortened(text)}")
    found = ModelWindow(
        size,
        _each(given.get("stride", ones), rank),
        tuple(low for low, _ in pads),
        tuple(high for _, high in pads),
        _each(given.get("lhs_dilate", ones), rank),
        _each(given.get("rhs_dilate", ones), rank),
        tuple(
            bool(each) for each in _each(given.get("rhs_reversal", ones.replace("1", "0")), rank)
        ),
    )
    if min((*found.size, *found.stride, *found.base_dilation, *found.dilation), default=1) < 1:
        fault(f"window: needs sizes, strides and dilations of at least 1, found {shortened(text)}")
    return found


def _each(text: str, rank: int) -> tuple[int, ...]:
    parts = text.split("x") if rank else []
    if len(parts) != rank or not all(_INTEGER.fullmatch(part) for part in parts):
        fault(f"window: needs {rank} numbers such as {'x'.join(['3'] * rank)}, found {text}")
    return tuple(map(int, parts))


def _pad(text: str) -> tuple[int, int]:
    low, _, high = text.partition("_")
    if not (_INTEGER.fullmatch(low) and _INTEGER.fullmatch(high)):
        fault(f"window: needs paddings such as 1_1, found {shortened(text)}")
    return int(low), int(high)


def slices(made: HloInstruction) -> tuple[slice, ...]:
    """Return the slices of ``slice={[0:4], [1:9:2]}``."""
    text = text_of(made, "slice")
    found = _SLICE.findall(text)
    if len(found) != text.count("["):
        fault(f"slice= needs slices such as [0:4:2], found {shortened(text)}")
    return tuple(slice(int(a), int(b), int(c or 1)) for a, b, c in found)


def paddings(made: HloInstruction) -> tuple[tuple[int, int, int], ...]:
    """Return (low, high, interior) for each dimension of ``padding=0_0x1_1_2``."""
    found = []
    for part in text_of(made, "padding").split("x"):
        given = part.split("_")
        if len(given) not in (2, 3) or not all(_INTEGER.fullmatch(each) for each in given):
            fault(f"padding= needs paddings such as 1_1_0, found {shortened(part)}")
        low, high, *interior = map(int, given)
        found.append((low, high, interior[0] if interior else 0))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ConvolutionLabels:
    """Which dimensions of images, weights and results have which meaning."""

    batch: int
    channels: int
    pixels: tuple[int, ...]
    inputs: int
    filters: int
    weight_pixels: tuple[int, ...]
    out_batch: int
    out_filters: int
    out_pixels: tuple[int, ...]


def convolution_labels(made: HloInstruction) -> ConvolutionLabels:
    """Return the labels of ``dim_labels=b01f_01io->b01f``."""
    text = text_of(made, "dim_labels")
    found = re.fullmatch(r"([bf\d]+)_([io\d]+)->([bf\d]+)", text)
    if found is None:
        fault(f"dim_labels= needs labels such as b01f_01io->b01f, found {shortened(text)}")
    lhs, rhs, out = found.groups()
    pixels = "".join(map(str, range(len(lhs) - 2)))
    for given, letters in ((lhs, "bf"), (rhs, "io"), (out, "bf")):
        if sorted(given) != sorted(letters + pixels):
            fault(f"dim_labels={text}: needs {letters} and the pixels {pixels} in each, once")
    return ConvolutionLabels(
        lhs.index("b"),
        lhs.index("f"),
        tuple(lhs.index(p) for p in pixels),
        rhs.index("i"),
        rhs.index("o"),
        tuple(rhs.index(p) for p in pixels),
        out.index("b"),
        out.index("f"),
        tuple(out.index(p) for p in pixels),
    )
