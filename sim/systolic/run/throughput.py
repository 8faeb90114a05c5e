"""How many images a network takes: for the images per second of the machine in a summary.

The images are the images of the first convolution, or the rows of the scores that
[workload.accuracy] of a run file names. Other graphs have none.
"""

from __future__ import annotations

from systolic.config import RunConfig
from systolic.run.accuracy import scored_images
from systolic.workload import Graph


def images_of_run(config: RunConfig) -> int | None:
    """Return the images that a run file's network takes together; None if it takes no images."""
    return images_of_graph(config.graph) or scored_images(config)


def images_of_graph(graph: Graph) -> int | None:
    """Return the images of the first convolution; None without one."""
    first = next((op for op in graph.operations if op.kind == "conv2d"), None)
    return graph.shape(first.inputs[0]).dims[0] if first else None


def images_per_second(images: int, time_ns: float) -> float:
    """Return how many images the machine takes in a second, all of them in one run."""
    return images * 1e9 / time_ns
