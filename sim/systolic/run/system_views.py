"""A system, or a network alone, as the views of networks are given it."""

from __future__ import annotations

from systolic.network.labels import SENDING, link_labels
from systolic.network.measures import positions
from systolic.network.network import Network
from systolic.network.outcome import NetworkOutcome
from systolic.report.plots.network import LinkUse, NetworkPlot, PlottedHop
from systolic.run.system import System, run_system


def described(network: Network) -> str:
    """Return a network in a few words: ``torus 4 x 4: 16 nodes, 64 directed links``."""
    shape = " x ".join(map(str, network.shape))
    kind = f"{network.kind} {shape}".strip() if network.kind != "file" else "network"
    return f"{kind}: {len(network.nodes)} nodes, {len(network.links)} directed links"


def topology_plot(network: Network) -> NetworkPlot:
    """Return a network without a run."""
    number = {node: place for place, node in enumerate(network.nodes)}
    links = [
        LinkUse(str(link), number[link.source], number[link.target], 0.0, 0.0, ())
        for link in network.links
    ]
    return _plot(network, links, None, ())


def system_plot(system: System) -> NetworkPlot:
    """Return a system with a run of it, in which every hop is recorded."""
    network, outcome = system.network, run_system(system, hops=True).outcome
    number = {node: place for place, node in enumerate(network.nodes)}
    ticks = max(outcome.ticks, 1)
    labels = link_labels(network, system.traffic, outcome)
    links = [
        LinkUse(
            str(link),
            number[link.source],
            number[link.target],
            outcome.busy_cycles[place] * link.period / ticks,
            outcome.blocked_cycles[place] * link.period / ticks,
            [(each.first, each.stop, each.label) for each in labels[place]],
        )
        for place, link in enumerate(network.links)
    ]
    carries = system.traffic.carries
    hops = [
        PlottedHop(
            place,
            each.first,
            each.stop,
            each.first + link.latency_cycles * link.period,
            each.stop + link.latency_cycles * link.period,
            carries[each.message] if carries else each.message,
        )
        for place, link in enumerate(network.links)
        for each in labels[place]
        if each.label == SENDING
    ]
    return _plot(network, links, outcome, hops)


def _plot(
    network: Network,
    links: list[LinkUse],
    outcome: NetworkOutcome | None,
    hops: list[PlottedHop] | tuple[()],
) -> NetworkPlot:
    places = positions(network)
    hosts = set(network.hosts)
    return NetworkPlot(
        said=described(network),
        nodes=[str(node) for node in network.nodes],
        places=[places[node] for node in network.nodes],
        hosts=frozenset(n for n, node in enumerate(network.nodes) if node in hosts),
        links=links,
        ticks=0 if outcome is None else outcome.ticks,
        hops=hops,
    )
