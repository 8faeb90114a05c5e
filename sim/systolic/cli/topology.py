"""`systolic topology`: the links, the diameter and the bisection of a network, and its picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from systolic.cli.options import is_number
from systolic.cli.tables import table
from systolic.errors import SystolicError, perhaps, printable, shortened
from systolic.report.summary.wording import number

if TYPE_CHECKING:
    from systolic.network.measures import TopologyMeasures
    from systolic.network.network import Network

KINDS = ("ring", "mesh", "torus", "clos")
A_LINK = {"bytes_per_cycle": 1, "latency_cycles": 1}
"""What the links are does not matter here."""


def topology_command(
    kind: Annotated[
        str, typer.Argument(help="ring, mesh, torus, clos, or a system, TOML or GraphML file.")
    ],
    shape: Annotated[
        list[str] | None,
        typer.Argument(help="Nodes along each dimension; of clos: leaves, hosts of each, spines."),
    ] = None,
    *,
    out: Annotated[
        Path, typer.Option("--out", "--output", help="The picture: .png, .svg or .pdf.")
    ] = Path("topology.png"),
    theme: Annotated[str, typer.Option("--theme", help="light or dark.")] = "light",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, and draw no picture.")
    ] = False,
) -> None:
    """Print links, diameter and bisection of a topology, and draw it."""
    from systolic.network.measures import measures_of

    network = _network(kind, shape or ())
    measures = measures_of(network)
    if as_json:
        typer.echo(json.dumps(asdict(measures)))
        return
    look_out = _look(kind, shape or (), out, theme)
    from systolic.report.plots.network import draw_topology
    from systolic.run.system_views import topology_plot

    draw_topology(topology_plot(network), look_out).save(out)
    for line in table(("", ""), _rows(measures), numbers=-1):
        if line.strip():
            typer.echo(printable(line))
    typer.echo(printable(f"  drawn in {out}"))


def _look(kind: str, shape: Sequence[str], out: Path, theme: str) -> Any:
    from systolic.cli.plot import target_format, theme_named
    from systolic.report.plots.look import Look
    from systolic.run.folder import require_writable

    require_writable(out)
    title = kind if kind not in KINDS else f"{kind} {' x '.join(shape)}".strip()
    return Look(title, target_format(out), theme_named(theme))


def _rows(measures: TopologyMeasures) -> list[tuple[str, str]]:
    links = measures.links
    each_way = number(int(links)) if links == int(links) else f"{links}"
    rows = [("nodes", number(measures.nodes))]
    if measures.hosts != measures.nodes:
        rows.append(("hosts", number(measures.hosts)))
    rows += [
        ("links each way", each_way),
        ("diameter", "not known" if measures.diameter is None else number(measures.diameter)),
        (
            "bisection, each way",
            "not known" if measures.bisection is None else number(measures.bisection),
        ),
    ]
    return rows


def _network(kind: str, shape: Sequence[str]) -> Network:
    """Return the network that the arguments mean."""
    from systolic.network.read import read_network

    if kind in KINDS:
        sizes = [_size(text) for text in shape]
        if kind == "clos":
            if len(sizes) != 3:
                raise SystolicError(
                    "SHAPE: a clos needs leaves, hosts of each leaf and spines, such as clos 4 2 2"
                )
            names = ("leaves", "hosts", "spines")
            return read_network(
                {"kind": kind, "link": A_LINK, **dict(zip(names, sizes, strict=True))}
            )
        if not sizes:
            raise SystolicError(
                f"SHAPE: is missing; needed the nodes of each dimension of a {kind}"
            )
        return read_network({"kind": kind, "shape": sizes, "link": A_LINK})
    path = Path(kind)
    if path.suffix.lower() not in (".toml", ".graphml"):
        raise SystolicError(
            f'KIND: there is no topology "{shortened(kind)}" (known: {", ".join(KINDS)}; a file '
            f"ends in .toml or .graphml){perhaps(kind, KINDS)}"
        )
    if shape:
        raise SystolicError(f"SHAPE: means nothing beside a file, found {' '.join(shape)}")
    from systolic.run.system import is_system_file, load_system

    if path.suffix.lower() == ".toml" and is_system_file(path):
        return load_system(path).network
    return read_network({"file": str(path), "link": A_LINK})


def _size(text: str) -> int:
    if not is_number(text) or not int(text):
        raise SystolicError(f'SHAPE: needs whole numbers of 1 or more, found "{shortened(text)}"')
    return int(text)
