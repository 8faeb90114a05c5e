"""Named topologies and files: links, routes that fit and are short, diameter and bisection."""

from __future__ import annotations

import itertools
import pickle

import networkx
import pytest

from systolic.errors import ConfigError
from systolic.network.deadlock import refuse_circles
from systolic.network.measures import measures_of
from systolic.network.read import read_network

LINK = {"bytes_per_cycle": 4, "latency_cycles": 2}
NAMED = [
    {"kind": "ring", "shape": [2]},
    {"kind": "ring", "shape": [5]},
    {"kind": "ring", "shape": [8]},
    {"kind": "mesh", "shape": [4, 3]},
    {"kind": "mesh", "shape": [2, 3, 2]},
    {"kind": "torus", "shape": [4, 4]},
    {"kind": "torus", "shape": [2, 5]},
    {"kind": "torus", "shape": [3, 1]},
    {"kind": "torus", "shape": [3, 2, 4]},
    {"kind": "clos", "leaves": 3, "hosts": 2, "spines": 2},
    {"kind": "clos", "leaves": 1, "hosts": 3, "spines": 1},
]


def named(table):
    return read_network({**table, "link": LINK})


def graph_of(network):
    graph = networkx.DiGraph()
    graph.add_nodes_from(network.nodes)
    graph.add_edges_from((link.source, link.target) for link in network.links)
    return graph


@pytest.mark.parametrize("table", NAMED, ids=str)
def test_routes_fit_their_links_are_shortest_and_cannot_deadlock(table):
    network = named(table)
    graph = graph_of(network)
    assert graph.number_of_edges() == len(network.links), "a link stands twice"
    routes = []
    for source, target in itertools.permutations(network.hosts, 2):
        route = network.route(source, target)
        here = source
        for number, channel in zip(route.links, route.channels, strict=True):
            assert network.links[number].source == here
            assert 0 <= channel < network.links[number].channels
            here = network.links[number].target
        assert here == target
        assert len(route.links) == networkx.shortest_path_length(graph, source, target)
        routes.append(route)
    refuse_circles(network, routes)


@pytest.mark.parametrize("table", NAMED, ids=str)
def test_diameter(table):
    network = named(table)
    graph = graph_of(network)
    longest = max(
        networkx.shortest_path_length(graph, source, target)
        for source, target in itertools.permutations(network.hosts, 2)
    )
    assert measures_of(network).diameter == longest


@pytest.mark.parametrize(
    "table", [t for t in NAMED if len(named(t).hosts) in (2, 8, 12, 16)], ids=str
)  # fmt: skip
def test_bisection_by_trying_all_halves(table):
    """The fewest links from one half of the hosts to the other, switches wherever they help."""
    network = named(table)
    found = measures_of(network).bisection
    assert found is not None
    graph = graph_of(network)
    networkx.set_edge_attributes(graph, 1, "capacity")
    hosts = network.hosts
    least = min(
        _cut(graph, set(half), set(hosts) - set(half))
        for half in itertools.combinations(hosts, len(hosts) // 2)
    )
    assert found == least


def _cut(graph, half, rest):
    if len(half) + len(rest) == graph.number_of_nodes():
        return sum(source in half and target in rest for source, target in graph.edges)
    both = graph.copy()
    both.add_edges_from([("all", node) for node in half], capacity=1 << 20)
    both.add_edges_from([(node, "rest") for node in rest], capacity=1 << 20)
    return networkx.maximum_flow_value(both, "all", "rest")


def test_the_shorter_way_and_ties_to_higher_numbers():
    network = named({"kind": "ring", "shape": [6]})
    ways = [[str(network.links[n]) for n in network.route(0, k).links] for k in (2, 3, 4)]
    assert ways == [
        ["0 -> 1", "1 -> 2"], ["0 -> 1", "1 -> 2", "2 -> 3"], ["0 -> 5", "5 -> 4"]
    ]  # fmt: skip


def test_x_goes_before_y_and_channel_1_begins_at_the_wrap_around():
    network = named({"kind": "torus", "shape": [5, 4]})
    route = network.route(4, 11)  # from x 4, y 0 to x 1, y 2
    assert [str(network.links[n]) for n in route.links] == ["4 -> 0", "0 -> 1", "1 -> 6", "6 -> 11"]
    assert route.channels == (1, 1, 0, 0)


def test_hosts_of_a_clos_go_up_by_the_sum_of_their_numbers():
    network = named({"kind": "clos", "leaves": 3, "hosts": 2, "spines": 2})
    route = [network.links[n].target for n in network.route(1, 4).links]
    assert route == ["leaf0", "spine1", "leaf2", 4]
    assert [network.links[n].target for n in network.route(2, 3).links] == ["leaf1", 3]


def test_a_graphml_file(tmp_path):
    graph = networkx.erdos_renyi_graph(9, 0.4, seed=3)
    for number, (source, target) in enumerate(graph.edges):
        graph.edges[source, target]["latency_cycles"] = 1 + number % 4
    file = tmp_path / "net.graphml"
    networkx.write_graphml(graph, file)
    network = read_network({"file": str(file), "link": {"bytes_per_cycle": 8}})
    assert len(network.links) == 2 * graph.number_of_edges()
    names = {str(node): node for node in graph}
    for source, target in itertools.permutations(network.nodes, 2):
        if networkx.has_path(graph, names[source], names[target]):
            length = networkx.shortest_path_length(graph, names[source], names[target])
            assert len(network.route(source, target).links) == length
        else:
            with pytest.raises(ConfigError, match="no links lead from node"):
                network.route(source, target)
    assert {link.latency_cycles for link in network.links} == {1, 2, 3, 4}


def test_a_toml_file_of_links_and_routes(tmp_path):
    file = tmp_path / "net.toml"
    file.write_text(
        "[[links]]\nsource = 'a'\ntarget = 'b'\nlatency_cycles = 3\n"
        "[[routes]]\nsource = 'a'\ntarget = 'b'\nlinks = [0]\n"
    )
    network = read_network({"file": str(file), "link": {"bytes_per_cycle": 8}})
    assert network.route("a", "b").channels == (0,)


@pytest.mark.parametrize("routes", ["", "[[routes]]\nsource = 'a'\ntarget = 'b'\nlinks = [0]\n"])
def test_a_network_of_a_file_can_be_sent_to_a_process(routes, tmp_path):
    file = tmp_path / "net.toml"
    file.write_text(f"[[links]]\nsource = 'a'\ntarget = 'b'\nlatency_cycles = 3\n{routes}")
    network = read_network({"file": str(file), "link": {"bytes_per_cycle": 8}})
    assert pickle.loads(pickle.dumps(network)).route("a", "b").links == (0,)


@pytest.mark.parametrize("table", NAMED, ids=str)
def test_a_named_network_can_be_sent_to_a_process(table):
    network = named(table)
    sent = pickle.loads(pickle.dumps(network))
    for source, target in itertools.permutations(network.hosts, 2):
        one, other = network.route(source, target), sent.route(source, target)
        assert (one.links, one.channels) == (other.links, other.channels)
