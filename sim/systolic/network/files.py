"""Networks from files of their own: TOML with links and routes, or GraphML (by networkx).

A node's name is what the file calls it. An edge of GraphML has the keys of a link; what it leaves
out comes from the table `link` of the network. An undirected edge is a link each way.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from systolic.errors import ConfigError
from systolic.reading import read_file

MOST_BYTES = 64 << 20


def tables_of_file(path: Path, link: dict[str, Any]) -> dict[str, Any]:
    """Return the tables links and routes of a file; link: keys that a link may leave out."""
    data = read_file(path, MOST_BYTES, ConfigError, "a file of links")
    if path.suffix.lower() == ".graphml":
        return {"links": _graphml(path, data, link)}
    try:
        found = tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
    for key in found:
        if key not in ("links", "routes"):
            raise ConfigError(f'{path}: unknown key "{key}" (known: links, routes)')
    links = [link | each for each in found.get("links", [])]
    return {"links": links, "routes": found.get("routes", [])}


def _graphml(path: Path, data: bytes, link: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        import networkx
    except ImportError:
        raise ConfigError(
            f"{path}: GraphML is read by networkx, which is not installed (pip install "
            "systolic[networks])"
        ) from None
    try:
        graph = networkx.parse_graphml(data.decode("utf-8"))
    except Exception as error:  # networkx raises what its XML parser raises, and errors of its own
        raise ConfigError(f"{path}: is not GraphML: {error}") from None
    if graph.is_multigraph():
        edges = [
            (source, target, keys) for source, target, _, keys in graph.edges(keys=True, data=True)
        ]
    else:
        edges = list(graph.edges(data=True))
    links = []
    for source, target, keys in edges:
        table = link | {key: value for key, value in keys.items() if key != "id"}
        links.append(table | {"source": source, "target": target})
        if not graph.is_directed():
            links.append(table | {"source": target, "target": source})
    return links
