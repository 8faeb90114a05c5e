"""Stores some tiles behind what makes these, so that queues bring the tiles between them meanwhile.

A store waits until its tile is made, and a queue keeps its order: what stands behind a store waits
as well. So queues that store bring nothing, and where tiles take longer to bring than to store,
those that store have nothing to do for most of the time. If a store stands behind the loads of the
tiles that follow, its tile is made when the queue comes to it, and every queue can bring and store.
Not here: whether that is better (`plans`), and which queue moves what (`schedule`).
"""

from __future__ import annotations

from dataclasses import replace

from systolic.compiler.ir.nodes import Layers, StoreNode
from systolic.compiler.ir.tasks import Task, Tiled
from systolic.compiler.tile.stored_places import StoredPlaces


def brings_and_stores(tiled: Tiled, layers: Layers) -> bool:
    """Return whether tiles come from DRAM, and tiles are stored there."""
    places, tasks = StoredPlaces(layers), tiled.tasks
    return any(task.kind is StoreNode for task in tasks) and any(map(places.read, tasks))


def with_late_stores(tiled: Tiled, layers: Layers, late: int) -> Tiled:
    """Return the same tasks, each store behind what comes before the `late`-th store after it.

    Stores keep their order. They stay before tasks that take something from where they write.
    """
    places, tasks, held = StoredPlaces(layers), list[Task](), list[Task]()
    for task in tiled.tasks:
        if task.kind is StoreNode:
            held.append(task)
            if len(held) > late:
                tasks.append(held.pop(0))
            continue
        if places.read(task).intersection(map(places.written, held)):
            tasks += held
            held.clear()
        tasks.append(task)
    return replace(tiled, tasks=(*tasks, *held))
