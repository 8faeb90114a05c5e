"""The accuracy of a network: how many rows of its scores are largest where the labels say.

[workload.accuracy] of a run file names the labels. They are read before the run, so that a
fault in them costs no simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from systolic.arrays import Array
from systolic.config import RunConfig
from systolic.errors import ConfigError, WorkloadError
from systolic.layout import Shape
from systolic.workload import DataSource, Graph, load_data
from systolic.workload.data.sources import BatchPart

Judge = Callable[[Mapping[str, Array]], float]


def judge_of(config: RunConfig) -> Judge | None:
    """Return the function that gives the accuracy of a run's outputs; None if nothing is asked.

    In a run of some images those count that would count in a run of all; None if there are none.

    Raises:
        ConfigError: there are no such scores. WorkloadError: the labels are no such file.

    """
    asked = config.workload.accuracy
    if asked is None or config.workload.layers is not None:  # a part of a network has no scores
        return None
    where = f"{config.path}: [workload.accuracy]"
    scores = _scores(config.graph, asked.scores, where)
    rows, classes = config.graph.shape(scores).dims
    images = _images(config) or BatchPart(0, rows, rows)
    labels = _labels(config, images.count, classes, where)
    if asked.first >= images.count:
        raise ConfigError(f"{where} first: needs at most {images.count - 1}, found {asked.first}")
    counts = np.zeros(images.count, dtype=bool)
    counts[asked.first :: asked.step] = True
    labels, judged = images.of(labels), images.of(counts)
    if not judged.any():
        return None

    def accuracy(outputs: Mapping[str, Array]) -> float:
        found = outputs[scores].astype(np.float64).argmax(axis=1)
        return float((found[judged] == labels[judged]).mean())

    return accuracy


def _images(config: RunConfig) -> BatchPart | None:
    """Return which images of its batch a run takes; None if it takes all."""
    return next((s.images for s in config.sources.values() if s.images is not None), None)


def scored_images(config: RunConfig) -> int | None:
    """Return the rows of the scores that labels are held against; None if nothing is asked."""
    asked = config.workload.accuracy
    if asked is None:
        return None
    where = f"{config.path}: [workload.accuracy]"
    return config.graph.shape(_scores(config.graph, asked.scores, where)).dims[0]


def _scores(graph: Graph, name: str | None, where: str) -> str:
    """Return the output that holds the scores, [images, classes]."""
    fit = [output for output in graph.outputs if graph.shape(output).rank == 2]
    if name is None and len(fit) == 1:
        return fit[0]
    if name not in fit:
        raise ConfigError(
            f"{where} scores: needs one of {', '.join(fit) or 'none'}, the outputs of two "
            f"dimensions, found {name or 'nothing'}"
        )
    assert name is not None
    return name


def _labels(config: RunConfig, images: int, classes: int, where: str) -> Array:
    assert config.workload.accuracy is not None
    path = config.path.parent / config.workload.accuracy.labels
    if path.suffix.lower() not in (".npy", ".csv"):
        raise ConfigError(f"{where} labels: needs a .npy or .csv file, found {path.name}")
    try:
        found = load_data(DataSource("file", path=path), Shape("s32", (images, 1)))[:, 0]
    except WorkloadError as error:
        raise WorkloadError(f"{where} labels: {error}") from None
    if found.min() < 0 or found.max() >= classes:
        outside = int(found.min() if found.min() < 0 else found.max())
        raise ConfigError(
            f"{where} labels: {path} holds {outside}, but scores has classes 0 to {classes - 1}"
        )
    return found
