"""The page of all keys of chip files, made from the JSON schema that editors read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from systolic.config import schema

Schema = dict[str, Any]
HEAD = """\
# Keys of a chip file

Every table and key that a chip file may have, with its values and its default. This page is made
from the models that check the files: `pytest tests/docs/test_chip_keys_page.py --update-docs`
writes it. `systolic schema chip` prints the same for an editor, `systolic chip show ideal_4x4`
what a chip has. What keys mean together: [chips.md](chips.md), [engines.md](engines.md),
[memory.md](memory.md), [timing_model.md](timing_model.md).
"""
ONE = "\n## At the top of the file\n\n"
SEVERAL = """
## At the top of a file with several cores

Such a file has these keys instead ([system.md](system.md)). Tables of a core, of DRAM, of DMA and
of provenance have the keys above.

"""


def page() -> str:
    """Return the text of docs/chip_keys.md."""
    found = schema("chip")
    one, several = ({**found, **_resolved(found, each)} for each in found["anyOf"])
    above = [found["$defs"][name] for name in ("Chip", "Dram", "Dma", "Provenance")]
    return "".join([HEAD, ONE, *_table(one, (), []), SEVERAL, *_table(several, (), above)])


def _table(root: Schema, place: tuple[str, ...], known: Sequence[Schema]) -> Iterator[str]:
    """Yield the sections of a table and of the tables in it, but for `known` ones."""
    node = _at(root, place)
    inner: list[tuple[str, ...]] = []
    if place:
        yield f"\n## {_title(place)}\n\n"
        yield f"{_first_line(node.get('description', ''))}\n\n"
    yield "| key | values | default | meaning |\n|---|---|---|---|\n"
    needed = node.get("required", [])
    for key, given in node["properties"].items():
        found = _resolved(root, given)
        if (table := _inner(root, found)) is not None:
            inner.append((*place, key, *table))
        about = given.get("description") or _first_line(found.get("description", ""))
        default = "needed" if key in needed else _default(given, found)
        yield f"| `{key}` | {_choices(root, given)} | {default} | {_cell(about)} |\n"
    for each in inner:
        if _at(root, each) not in known:
            yield from _table(root, each, known)


def _title(place: tuple[str, ...]) -> str:
    name = ".".join("NAME" if part == "*" else part for part in place if part != "#")
    return f"`[[{name}]]`" if place[-1] == "#" else f"`[{name}]`"


def _inner(root: Schema, node: Schema) -> tuple[str, ...] | None:
    """Return the steps from a key to a table with keys of its own; None if there is none."""
    if "properties" in node:
        return ()
    if isinstance(more := node.get("additionalProperties"), dict):
        return ("*",) if "properties" in _resolved(root, more) else None
    if isinstance(more := node.get("items"), dict):
        return ("#",) if "properties" in _resolved(root, more) else None
    return None


def _at(root: Schema, place: tuple[str, ...]) -> Schema:
    node = root
    for step in place:
        key = {"*": "additionalProperties", "#": "items"}.get(step)
        node = _resolved(root, node[key] if key else node["properties"][step])
    return node


def _resolved(root: Schema, node: Schema) -> Schema:
    """Follow references, and the first of several choices that is not null."""
    while "$ref" in node or "anyOf" in node:
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        else:
            node = next(n for n in node["anyOf"] if n.get("type") != "null")
    return node


def _choices(root: Schema, given: Schema) -> str:
    """Return in words which values a key takes, of several types too."""
    choices = [node for node in given.get("anyOf", [given]) if node.get("type") != "null"]
    return " or ".join(_values(root, _resolved(root, node)) for node in choices)


def _values(root: Schema, node: Schema) -> str:
    """Return in words which values a key takes."""
    if "properties" in node:
        return "a table"
    if "enum" in node or "const" in node:
        return ", ".join(f"`{json.dumps(v)}`" for v in node.get("enum", [node.get("const")]))
    kind = node.get("type")
    if kind == "object":
        more = node.get("additionalProperties")
        return f"by name: {_values(root, _resolved(root, more))}" if more else "a table"
    if kind == "array":
        parts = node.get("prefixItems")
        if parts:
            return f"[{', '.join(_values(root, _resolved(root, part)) for part in parts)}]"
        return f"a list: {_values(root, _resolved(root, node.get('items', {})))}"
    words = {"integer": "integer", "number": "number", "string": "text", "boolean": "true, false"}
    return words.get(str(kind), "a value") + _limits(node)


def _limits(node: Schema) -> str:
    low = node.get("minimum", node.get("exclusiveMinimum"))
    high = node.get("maximum", node.get("exclusiveMaximum"))
    if high is not None and high >= 1 << 40:
        high = None
    if low is not None and high is not None:
        return f" {low} to {high}"
    return f" ≥ {low}" if low is not None else f" ≤ {high}" if high is not None else ""


def _default(given: Schema, found: Schema) -> str:
    value = given.get("default")
    if value is None or "properties" in found:
        return "none" if "properties" not in found else "as its keys say"
    return f"`{json.dumps(value)}`"


def _first_line(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
