"""A failed validation as one line: file, table, key, what was needed, what was found.

The words for what is needed come from the model's JSON schema, so they agree with the checks.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from systolic.errors import ConfigError, UnknownKeyError, listed, perhaps, shortened

Schema = dict[str, Any]
KeyPath = tuple[str | int, ...]


def explain(
    error: ValidationError, model: type[BaseModel], origin: Callable[[KeyPath], str]
) -> ConfigError:
    """Return a ConfigError of one line about the first fault, with the keys of the other faults.

    An unknown key counts as the first fault, because a misspelt key often causes the others.

    Args:
        error: what pydantic found.
        model: the class that was validated.
        origin: gives, for a place such as ("pe_array", "rows"), the file or option it is from.

    """
    faults = error.errors(include_url=False)
    fault = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
    place: KeyPath = fault["loc"]
    if fault["type"] == "value_error":
        text = _at(place, f"{fault['ctx']['error']}")
    else:
        text = _describe(fault["type"], place, fault["input"], model.model_json_schema())
    others = [other for other in faults if other is not fault]
    kind = UnknownKeyError if fault["type"] == "extra_forbidden" else ConfigError
    return kind(f"{origin(place)}: {text}{_also(others)}")


def _also(faults: Sequence[ErrorDetails]) -> str:
    """Return the keys of other faults: `` (also missing: chip; also wrong: [workload] op)``."""
    missing = [_name(fault["loc"]) for fault in faults if fault["type"] == "missing"]
    wrong = [_name(fault["loc"]) for fault in faults if fault["type"] != "missing"]
    kinds = (("missing", missing), ("wrong", wrong))
    text = "; ".join(f"also {kind}: {listed(names)}" for kind, names in kinds if names)
    return f" ({text})" if text else ""


def _name(place: KeyPath) -> str:
    """Return the name of a place, such as ``[pe_array] rows``."""
    if place and isinstance(place[-1], int):
        return f"{_name(place[:-1])} #{place[-1] + 1}"
    return f"{where(place[:-1])}{place[-1]}" if place else "the file"


def _describe(kind: str, place: KeyPath, found: Any, schema: Schema) -> str:
    table, key = place[:-1], str(place[-1]) if place else ""
    if kind == "extra_forbidden":
        known = sorted(_node(schema, table).get("properties", {}))
        found_key = f'{where(table)}unknown key "{shortened(key)}"'
        return f"{found_key} (known: {', '.join(known)}){perhaps(key, known)}"
    node = _node(schema, place)
    if kind == "missing":
        return _at(place, f"is missing; needs {needs(node)}")
    return _at(place, f"needs {needs(node, kind)}, found {shown(found)}") + _meant(node, found)


def _meant(node: Schema, found: Any) -> str:
    return perhaps(found, map(str, node["enum"])) if "enum" in node and type(found) is str else ""


def where(table: Sequence[str | int]) -> str:
    """Return ``[pe_array] `` for the place of a table; entries of a list are counted from 1."""
    words = [f"#{word + 1}" if isinstance(word, int) else shortened(word) for word in table]
    return f"[{'.'.join(words).replace('.#', ' #')}] " if words else ""


def _at(place: KeyPath, text: str) -> str:
    """Return ``[table] key: text``; a place that is itself a table gives ``[table] text``."""
    if len(place) > 1 and isinstance(place[-1], int):
        return f"{where(place[:-2])}{shortened(str(place[-2]))}: entry {place[-1] + 1} {text}"
    if len(place) == 1 and not text.startswith(("needs", "is missing")):
        return f"{where(place)}{text}"
    return f"{where(place[:-1])}{shortened(str(place[-1]))}: {text}" if place else text


def needs(node: Schema, kind: str = "") -> str:
    """Return in words what a schema asks for: ``an integer >= 1``, ``one of "left", "top"``."""
    for choices in ("enum", "const"):
        if choices in node:
            values = node["enum"] if choices == "enum" else [node["const"]]
            quoted = listed(f'"{value}"' for value in values)
            return f"one of {quoted}" if len(values) > 1 else quoted
    return _NEEDS.get(node.get("type", ""), _any)(node, kind)


def _any(node: Schema, kind: str) -> str:
    return "a value"


def _integer(node: Schema, kind: str) -> str:
    if kind == "less_than_equal":
        return f"an integer <= {node['maximum']}"
    return f"an integer >= {node['minimum']}" if "minimum" in node else "an integer"


def _list(node: Schema, kind: str) -> str:
    if "prefixItems" in node:
        return f"a list of {len(node['prefixItems'])} values"
    least = node.get("minItems", 0)
    return f"a list of {least} or more values" if least else "a list"


def _table(node: Schema, kind: str) -> str:
    return "a table with 1 or more keys" if node.get("minProperties") else "a table"


_NEEDS: dict[str, Callable[[Schema, str], str]] = {
    "integer": _integer,
    "array": _list,
    "boolean": lambda node, kind: "true or false",
    "number": lambda node, kind: "a number",
    "string": lambda node, kind: "text",
    "object": _table,
}


def shown(value: Any) -> str:
    """Return a value from a TOML file as short text on one line, spelled as TOML spells it."""
    try:
        text = _spelled(value)
    except (RecursionError, ValueError):
        text = f"a {type(value).__name__}"
    return shortened(text)


def _spelled(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    if isinstance(value, dict):
        pairs = (
            f"{json.dumps(key, ensure_ascii=False)}: {_spelled(v)}" for key, v in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # TOML writes inf and nan where JSON writes Infinity and NaN.
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str)


def _node(schema: Schema, place: KeyPath) -> Schema:
    """Return the part of a JSON schema that describes the value at that place."""
    node = _resolve(schema, schema)
    for step in place:
        if isinstance(step, int):
            items = node.get("prefixItems", [])
            inner = items[step] if step < len(items) else node.get("items", {})
        else:
            inner = node.get("properties", {}).get(step) or node.get("additionalProperties", {})
        node = _resolve(schema, inner if isinstance(inner, dict) else {})
    return node


def _resolve(schema: Schema, node: Schema) -> Schema:
    """Follow references. Of several choices but null the first says the type, all say the keys."""
    for _ in range(8):
        if "$ref" in node:
            node = {**schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]}
        elif "anyOf" in node:
            choices = [n for n in node["anyOf"] if n.get("type") != "null"]
            node = {key: part for n in reversed(choices) for key, part in n.items()}
        elif "allOf" in node:
            node = node["allOf"][0]
    return node
