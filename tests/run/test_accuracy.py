"""Networks on real data: the digits, and how scores are held against labels."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.command_line import refused, run_command
from support.image_graphs import looped_convolution, looped_windows
from systolic.config import load_run
from systolic.shipped import CONFIGS

NETWORKS = CONFIGS / "networks"
MLP = NETWORKS / "digits_mlp.toml"
INT8 = NETWORKS / "digits_cnn_int8.toml"
CNN = NETWORKS / "digits_cnn.toml"
SMALL = """\
chip = "ideal_4x4"
[workload]
[workload.tensors]
x = { shape = "f32[4,3]", data = "x.csv" }
b = { shape = "f32[3]", data = "b.csv" }
[[workload.ops]]
op = "binary"
name = "y"
inputs = ["x", "b"]
out = "f32[4,3]"
operator = "add"
broadcast_dimensions = [1]
[workload.accuracy]
labels = "labels.csv"
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run file whose largest scores are those of classes 2, 0, 1 and 1."""
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("0,0,0\n9,0,0\n0,9,0\n0,5,4\n", encoding="utf-8")
    Path("b.csv").write_text("1\n2\n3\n", encoding="utf-8")
    np.save("b.npy", np.float32([1, 2, 3]))
    Path("labels.csv").write_text("2\n0\n1\n2\n", encoding="utf-8")
    path = Path("small.toml")
    path.write_text(SMALL.replace("b.csv", "b.npy"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("which", "expected"), [("", 0.75), ("first = 3", 0), ("first = 1\nstep = 2", 0.5)]
)
def test_the_share_of_images_that_count(small, which, expected):
    small.write_text(small.read_text(encoding="utf-8") + which, encoding="utf-8")
    status, out, err = run_command("run", small, "--json", "--no-plots")
    assert (status, err) == (0, "")
    assert json.loads(out)["accuracy"] == expected


def test_the_table_says_it(small):
    status, out, _ = run_command("run", small, "--no-plots")
    assert status == 0
    assert "accuracy  75.00 % of the images that count" in out


def test_times_only_have_no_accuracy(small):
    status, out, _ = run_command("run", small, "--json", "--no-plots", "--values", "none")
    assert status == 0
    assert "accuracy" not in json.loads(out)


@pytest.mark.parametrize(
    ("labels", "more", "said"),
    [
        ("2\n0\n1\n", "", "labels: labels.csv: holds [3, 1] elements, but the shape is [4, 1]"),
        ("2\n0\n1\n3\n", "", "labels: labels.csv holds 3, but scores has classes 0 to 2"),
        ("2\n0\n1\n2\n", 'scores = "z"',
         "scores: needs one of y, the outputs of two dimensions, found z"),
        ("2\n0\n1\n2\n", "first = 4", "first: needs at most 3, found 4"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit(small, labels, more, said):
    Path("labels.csv").write_text(labels, encoding="utf-8")
    small.write_text(small.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert refused("run", small, "--no-plots") == f"small.toml: [workload.accuracy] {said}"
    assert not Path("out").exists()


# -- the digits -----------------------------------------------------------------------------------


def digits() -> dict[str, np.ndarray]:
    return load_run(MLP).load_inputs()


def test_the_digits_are_classified():
    found = systolic.run(load_run(MLP))
    assert found.summary["values"]["equal"] is True
    inputs = {name: array.astype(np.float64) for name, array in digits().items()}
    hidden = np.maximum(inputs["images"] @ inputs["w1"] + inputs["b1"], 0)
    scores = hidden @ inputs["w2"] + inputs["b2"]
    assert np.allclose(found.outputs["scores"], scores, atol=0.05)
    labels = np.loadtxt(CONFIGS / "data" / "digits_labels.csv", dtype=int)
    right = (found.outputs["scores"].argmax(axis=1) == labels)[4::5]
    assert found.summary["accuracy"] == right.mean() >= 0.97


def test_a_small_sibling_runs_alike_on_both_engines():
    """Twelve images through the same operations and weights on a small array."""
    config = load_run(MLP, ["workload.tensors.images.shape=bf16[1797,64]"])
    graph = shortened(config.graph, 12)
    inputs = {**digits(), "images": digits()["images"][:12]}
    runs = {
        engine: systolic.run(graph, ideal_chip(16, 16), inputs, engine=engine)
        for engine in ("event", "register")
    }
    assert runs["event"].trace.times == runs["register"].trace.times
    first, second = (runs[engine].outputs["scores"] for engine in ("event", "register"))
    assert first.tobytes() == second.tobytes()
    assert runs["event"].summary["values"]["equal"] is True


def shortened(graph, images: int):
    """Return the graph with fewer images."""
    builder = systolic.workload.GraphBuilder("dram")
    for name in graph.inputs:
        builder.tensor(name, str(graph.shape(name)).replace("1797", str(images)))
    for op in graph.operations:
        given = {
            key: getattr(op.attributes, key)
            for key in (
                "function",
                "operator",
                "broadcast_dimensions",
                "padding",
                "stride",
                "window",
                "reduction",
            )
            if hasattr(op.attributes, key)
        }
        out = str(graph.shape(op.output)).replace("1797", str(images))
        builder.add(op.kind, op.inputs, out, name=op.output, **given)
    return builder.graph()


@pytest.mark.slow
def test_the_convolutional_network_classifies_the_digits():
    """Against windows by plain loops, on every fifth image; the accuracy is of all of these."""
    config = load_run(CNN)
    found = systolic.run(config)
    assert found.summary["values"]["equal"] is True
    inputs = {name: array.astype(np.float64) for name, array in config.load_inputs().items()}
    scores = convolved(inputs, inputs["pixels"][4::5].reshape(-1, 8, 8, 1))
    assert np.allclose(found.outputs["scores"][4::5], scores, atol=0.15)
    labels = np.loadtxt(CONFIGS / "data" / "digits_labels.csv", dtype=int)
    right = (found.outputs["scores"].argmax(axis=1) == labels)[4::5]
    assert found.summary["accuracy"] == right.mean() >= 0.98


def convolved(inputs: dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """Return the scores of the network in float64."""
    given = {"stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1]}
    for name in ("1", "2"):
        sums = looped_convolution(images, inputs[f"w{name}"], given)
        images = np.maximum(sums + inputs[f"b{name}"], 0)
    fours = {"stride": [2, 2], "padding": [0, 0, 0, 0], "dilation": [1, 1]}
    images = looped_windows(images, fours, (2, 2)).max(axis=(3, 4))
    sums = looped_convolution(images, inputs["w3"], {**given, "padding": [0, 0, 0, 0]})
    return sums.reshape(len(images), 10) + inputs["b3"]


def test_a_small_convolutional_network_runs_alike_on_both_engines():
    config = load_run(CNN)
    graph, inputs = shortened(config.graph, 5), config.load_inputs()
    inputs = {**inputs, "pixels": inputs["pixels"][:5]}
    runs = {
        engine: systolic.run(graph, ideal_chip(16, 16), inputs, engine=engine)
        for engine in ("event", "register")
    }
    assert runs["event"].trace.times == runs["register"].trace.times
    first, second = (runs[engine].outputs["scores"] for engine in ("event", "register"))
    assert first.tobytes() == second.tobytes()
    assert runs["event"].summary["values"]["equal"] is True


@pytest.mark.slow
def test_the_int8_network_classifies_the_digits():
    """Integers by plain loops and fractions of a filter, on every 20th image; all are counted."""
    config = load_run(INT8)
    found = systolic.run(config)
    assert found.summary["values"]["equal"] is True
    inputs = config.load_inputs()
    some = found.outputs["scores"][4::20]
    assert np.array_equal(some, in_integers(inputs, inputs["pixels"][4::20].reshape(-1, 8, 8, 1)))
    labels = np.loadtxt(CONFIGS / "data" / "digits_labels.csv", dtype=int)
    right = (found.outputs["scores"].argmax(axis=1) == labels)[4::5]
    assert found.summary["accuracy"] == right.mean() >= 0.98


def in_integers(inputs: dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """Return the scores of the int8 network: exact sums, one rounding of each product."""
    given = {"stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1]}
    for name in ("1", "2"):
        sums = looped_convolution(images, inputs[f"w{name}"], given) + inputs[f"b{name}"]
        scaled = np.float32(sums) * inputs[f"s{name}"]
        images = np.array([min(max(round(float(x)), 0), 127) for x in scaled.flat])
        images = images.reshape(scaled.shape)
    fours = {"stride": [2, 2], "padding": [0, 0, 0, 0], "dilation": [1, 1]}
    images = looped_windows(images, fours, (2, 2)).max(axis=(3, 4))
    sums = looped_convolution(images, inputs["w3"], {**given, "padding": [0, 0, 0, 0]})
    return sums.reshape(len(images), 10) + inputs["b3"]


def test_a_small_int8_network_runs_alike_on_both_engines():
    config = load_run(INT8)
    graph, inputs = shortened(config.graph, 5), config.load_inputs()
    inputs = {**inputs, "pixels": inputs["pixels"][:5]}
    chip = ideal_chip(16, 16, pe_array={"cycles_per_vector": {"s8": 1}})
    runs = [systolic.run(graph, chip, inputs, engine=engine) for engine in ("event", "register")]
    assert runs[0].trace.times == runs[1].trace.times
    assert runs[0].outputs["scores"].tobytes() == runs[1].outputs["scores"].tobytes()
    assert runs[0].summary["values"]["equal"] is True


def test_the_int8_arrays_are_those_that_the_script_makes(monkeypatch):
    made: dict[str, np.ndarray] = {}
    monkeypatch.setattr(np, "save", lambda path, array: made.update({Path(path).name: array}))
    runpy.run_path(str(NETWORKS / "quantise_digits_cnn.py"), run_name="__main__")
    assert len(made) == 8
    for name, array in made.items():
        stored = np.load(NETWORKS / name)
        assert stored.dtype == array.dtype
        assert np.array_equal(stored, array)


@pytest.mark.slow
def test_the_convolutional_weights_are_those_that_the_script_makes(monkeypatch):
    """The sums of a library may be added in another order, which training magnifies."""
    made: dict[str, np.ndarray] = {}
    monkeypatch.setattr(np, "save", lambda path, array: made.update({Path(path).name: array}))
    runpy.run_path(str(NETWORKS / "train_digits_cnn.py"), run_name="__main__")
    assert len(made) == 6
    for name, array in made.items():
        assert np.allclose(array, np.load(NETWORKS / name), atol=1e-2)


def test_the_weights_are_those_that_the_script_makes(monkeypatch):
    """The same seed gives the same numbers, but for the order in which a library adds."""
    made: dict[str, np.ndarray] = {}
    monkeypatch.setattr(np, "save", lambda path, array: made.update({Path(path).name: array}))
    runpy.run_path(str(NETWORKS / "train_digits_mlp.py"), run_name="__main__")
    assert len(made) == 4
    for name, array in made.items():
        assert np.allclose(array, np.load(NETWORKS / name), atol=1e-4)
