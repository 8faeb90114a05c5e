"""Eight mistakes of one cycle, or one turn: does the comparison of the two models notice each?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.both_networks import event_run, stepped_run
from support.random_networks import random_system
from systolic.network.event import links as links_module
from systolic.network.event.legs import Leg
from systolic.network.event.links import Links

SYSTEMS = 60


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    """Return what the stepped model says of the first systems."""
    return [stepped_run(*random_system(seed)) for seed in range(SYSTEMS)]


def later(field: str, cycles: int) -> Callable[[Leg], Leg]:
    """Return the change of a time of a packet on a link by some cycles of the link."""
    return lambda leg: replace(leg, **{field: getattr(leg, field) + cycles * leg.period})


LEG_MUTANTS = {
    "the wire is free a cycle late": later("wire", 1),
    "a flit is usable a cycle late": later("flight", 1),
    "a packet leaves its buffer a cycle late": later("tail", 1),
    "a packet asks for its next link a cycle late": later("wait", 1),
    "a slot is granted again a cycle early": later("credit", -1),
}


def differs(expected: list[dict[str, Any]]) -> bool:
    return any(event_run(*random_system(seed)) != expected[seed] for seed in range(SYSTEMS))


@pytest.mark.parametrize("name", LEG_MUTANTS)
def test_a_time_of_a_packet(name, expected, monkeypatch):
    original, change = links_module.leg_builder, LEG_MUTANTS[name]

    def built(network):
        legs = original(network)
        return lambda route, size: tuple(map(change, legs(route, size)))

    monkeypatch.setattr(links_module, "leg_builder", built)
    assert differs(expected)


def test_a_message_is_granted_in_the_cycle_after_its_entry(expected, monkeypatch):
    original = Links.ask

    def late(self, packet, place, readable, now=0):
        if packet.hop == 0:
            packet.ready += self.period[packet.leg.link]
        original(self, packet, place, readable, now)

    monkeypatch.setattr(Links, "ask", late)
    assert differs(expected)


def test_an_input_is_read_again_a_cycle_early(expected, monkeypatch):
    original = Links.ask

    def early(self, packet, place, readable, now=0):
        original(self, packet, place, max(0, readable - self.period[packet.leg.link]), now)

    monkeypatch.setattr(Links, "ask", early)
    assert differs(expected)


def test_the_turn_stays_with_the_winner(expected, monkeypatch):
    original = Links._rank

    def stays(self, link, place, packet):
        if self.is_oldest:
            return original(self, link, place, packet)
        return ((place - self.turn[link] + 1) % self.inputs[link],)

    monkeypatch.setattr(Links, "_rank", stays)
    assert differs(expected)


def test_without_a_mistake_nothing_differs(expected):
    assert not differs(expected)
