"""Cones of a form: the operations between one tensor and another, which nothing else takes.

Not here: what a cone computes (`recognise`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from systolic.workload.importers.form import ModelForm, ModelNode

PIECES = ("activation", "binary", "reduce", "reshape", "select", "cast")
"""Kinds of operations of which a function or a norm may be made."""
ROOTS = ("binary", "activation", "select")
MOST_PIECES = 24


@dataclass(frozen=True, slots=True)
class Cone:
    """Operations in order, the last being the root, and the tensors that they take from outside."""

    nodes: tuple[ModelNode, ...]
    sources: tuple[str, ...]

    @property
    def root(self) -> ModelNode:
        """Return the last operation."""
        return self.nodes[-1]

    @property
    def inner(self) -> set[str]:
        """Return the tensors between the source and the result that depend on the source."""
        led = {self.sources[0]}
        for node in self.nodes:
            if not led.isdisjoint(node.inputs):
                led.add(node.output)
        return led - {self.sources[0], self.root.output}


class Cones:
    """The cones of a form. results: tensors that must stay."""

    def __init__(self, form: ModelForm, results: Sequence[str]) -> None:
        self._form = form
        self._results = set(results)
        self._order = {node.output: n for n, node in enumerate(form.nodes)}
        self._takers: dict[str, set[str]] = {}
        for node in form.nodes:
            self._note(node)

    def _note(self, node: ModelNode) -> None:
        for name in node.inputs:
            self._takers.setdefault(name, set()).add(node.output)

    def replaced(self, cone: Cone, node: ModelNode) -> None:
        """Note that one operation has taken the place of a cone."""
        for each in cone.nodes:
            for name in each.inputs:
                self._takers[name].discard(each.output)
        self._note(node)

    def ending_in(self, root: ModelNode) -> Iterator[Cone]:
        """Yield the cones that end in `root` and begin at one tensor of its size, largest first."""
        if root.kind not in ROOTS:
            return
        form, tried = self._form, set[str]()
        dims = form.shapes[root.output].dims
        for first in [*self._ancestors(root), root]:
            for source in first.inputs:
                if form.shapes[source].dims != dims or source in form.constants or source in tried:
                    continue
                tried.add(source)
                cone = self._between(root, source)
                if cone is not None and self._is_closed(cone):
                    yield cone

    def _ancestors(self, root: ModelNode) -> list[ModelNode]:
        """Return the pieces that lead to `root`, the farthest first; a few at most."""
        found: dict[str, ModelNode] = {}
        waiting = [root]
        while waiting and len(found) < MOST_PIECES:
            for name in waiting.pop(0).inputs:
                made = self._form.maker(name)
                if made is not None and made.kind in PIECES and name not in found:
                    found[name] = made
                    waiting.append(made)
        return list(reversed(found.values()))

    def _between(self, root: ModelNode, source: str) -> Cone | None:
        """Return the operations from a tensor to `root`; None if they take another of its size.

        Numbers for each place along a dimension may come from outside.
        """
        form, inside = self._form, dict[str, ModelNode]()
        waiting = [root]
        while waiting:
            node = waiting.pop()
            inside[node.output] = node
            if len(inside) > MOST_PIECES:
                return None
            for name in node.inputs:
                made = form.maker(name)
                if name == source or name in inside or name in form.constants:
                    continue
                if made is not None and made.kind in PIECES:
                    waiting.append(made)
                elif form.shapes[name].rank != 1:
                    return None
        ordered = sorted(inside.values(), key=lambda node: self._order[node.output])
        nodes, others = self._of_source(ordered, source)
        sizes = form.shapes[source].dims
        if len(nodes) < 2 or any(form.shapes[name].dims[0] not in sizes for name in others):
            return None
        return Cone(tuple(nodes), (source, *others))

    def _of_source(
        self, ordered: Sequence[ModelNode], source: str
    ) -> tuple[list[ModelNode], list[str]]:
        """Return the operations that the source leads to, and the tensors that join them.

        A reshape of such a tensor is one of the operations.
        """
        led, kept = {source}, list[ModelNode]()
        for node in ordered:
            if not led.isdisjoint(node.inputs):
                led.add(node.output)
        joined = {name for node in ordered if node.output in led for name in node.inputs} - led
        for node in reversed(ordered):
            rank = self._form.shapes[node.output].rank
            if node.output in joined and node.kind == "reshape" and rank > 1:
                joined.remove(node.output)
                joined.update(node.inputs)
                kept.append(node)
            elif node.output in led:
                kept.append(node)
        others = [name for name in joined if name not in self._form.constants]
        if any(self._form.shapes[name].rank != 1 for name in others):
            return [], []
        order = {name: n for n, node in enumerate(ordered) for name in reversed(node.inputs)}
        return kept[::-1], sorted(others, key=lambda name: order[name])

    def _is_closed(self, cone: Cone) -> bool:
        """Return whether nothing outside takes what the cone's pieces make, but for its root."""
        names = {node.output for node in cone.nodes}
        return not any(self._takers[name] - names or name in self._results for name in cone.inner)
