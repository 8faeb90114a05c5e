"""Which colour each thing of a picture has, if it only differs from the others by name.

A theme has few such colours, a network has hundreds of operations. So a colour is given again, but
not to two things that are there at the same time while another colour is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from systolic.report.paper.theme import Theme


def spans_of(named: Iterable[tuple[str, int, int]]) -> dict[str, tuple[int, int]]:
    """Return from when to when each name is there, of (name, first, stop) in any order."""
    found = dict[str, tuple[int, int]]()
    for name, first, stop in named:
        low, high = found.get(name, (first, stop))
        found[name] = min(low, first), max(high, stop)
    return found


def colours_apart(spans: Mapping[str, tuple[int, int]], theme: Theme) -> dict[str, str]:
    """Return a colour for each name, of the theme's series.

    In the order of their beginnings each gets a colour that none has had yet, and then the colour
    that has been free for the longest time.
    """
    free_from = {colour: (0, place) for place, colour in enumerate(theme.series)}
    found = {}
    for name, (_, stop) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        colour = min(free_from, key=lambda each: free_from[each])
        found[name], free_from[colour] = colour, (max(stop, 1), 0)
    return found
