"""An ONNX model as it stands in its file: nodes in order, constants as arrays, nothing computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from systolic.arrays import Array
from systolic.errors import shortened


def at_node(name: str) -> str:
    """Return the words for a node in an error."""
    return f'node "{shortened(name)}"'


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node of a graph.

    name: its own, or its first result's. version: the opset that defined its operator last.
    inputs, outputs: names of values, "" where one is left out. attributes: numbers, texts, tuples,
    arrays and graphs by name, defaults included. proto: the message, as the package onnx has it.
    """

    name: str
    operator: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: Any

    def number(self, key: str, other: int = 0) -> int:
        """Return an attribute that is a whole number; `other` if it is left out."""
        return int(self.attributes.get(key, other))

    def real(self, key: str, other: float = 0.0) -> float:
        """Return an attribute that is a number; `other` if it is left out."""
        return float(self.attributes.get(key, other))

    def numbers(self, key: str, other: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return an attribute that is a list of whole numbers; `other` if it is left out."""
        return tuple(int(each) for each in self.attributes.get(key, other))

    def text(self, key: str, other: str = "") -> str:
        """Return an attribute that is a text; `other` if it is left out."""
        return str(self.attributes.get(key, other))


@dataclass(frozen=True, slots=True)
class OnnxTensor:
    """What a graph says of an input or a result: a number of onnx's table of types (0: nothing).

    dims: sizes, names of open dimensions, or None of those without a name (None in their place:
    not even the rank is given).
    """

    name: str
    type: int
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """Nodes in an order in which they can be done. constants: arrays by name, external ones too."""

    name: str
    inputs: tuple[OnnxTensor, ...]
    outputs: tuple[OnnxTensor, ...]
    nodes: tuple[OnnxNode, ...]
    constants: Mapping[str, Array]
