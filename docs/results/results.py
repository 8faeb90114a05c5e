"""Write the pages of results: ``python docs/results/results.py [PAGE ...]``, or ``make results``.

Every figure of a page is that of a run, which is made here, for its times only. The figures of
README.md are taken from these pages, and written last. `tests/docs/test_results.py` makes the pages
again and holds the files against them.
"""

from __future__ import annotations

import csv
import math
import runpy
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import systolic
from systolic import shipped
from systolic.cli.validate import text as validation_text
from systolic.config import load_chip, load_run
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.report.summary.wording import ratio_text
from systolic.run.validation.table import read_table, table_file
from systolic.run.validation.validate import validate
from systolic.workload import GraphBuilder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NETWORKS = sorted((ROOT / "configs" / "networks").glob("*.toml"))
NETWORK_CHIPS = ("ideal_128x128", "hbm3_128x128", "ddr4_2400_128x128", "multi_clock_128x128",
                 "neuroncore_v2", "neuroncore_v3")  # fmt: skip
FEW_IMAGES = "64"
BATCHES = (1, 8, 64)
PRODUCTS = {
    "matmul_1024_onchip": "1024 x 1024 x 1024, operands on the chip",
    "matmul_1024_dram": "the same from DRAM to DRAM",
    "matmul_1024_row_major": "the same, both operands row by row, lhs transposed on the way",
    "matmul_skinny": "64 x 4096 x 4096, on the chip",
    "matmul_deep": "64 x 4096 x 64, on the chip",
    "matmul_chain": "256 x 512 x 384 and 256 x 384 x 256 in a row, DRAM to DRAM",
}
ON_CHIP, FROM_DRAM = "workload.home=state_buffer", "workload.home=dram"
ARRAY, DMA = "compile.via=pe", "compile.via=dram"
SIZES = (
    ("128 x 128, on the chip", ON_CHIP, "f32[128,128]"),
    ("512 x 512, on the chip", ON_CHIP, "f32[512,512]"),
    ("4 x 4, from DRAM to DRAM", FROM_DRAM, "f32[4,4]"),
    ("128 x 1, from DRAM to DRAM", FROM_DRAM, "f32[128,1]"),
    ("4096 x 1, from DRAM to DRAM", FROM_DRAM, "f32[4096,1]"),
    ("4096 x 2, from DRAM to DRAM", FROM_DRAM, "f32[4096,2]"),
    ("512 x 512, from DRAM to DRAM", FROM_DRAM, "f32[512,512]"),
)
CHIPS = ("ideal_128x128", "neuroncore_v2")
SQUARE = "f32[256,256]"
OPERATIONS_TRIED: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("reverse", SQUARE, {"axes": (0,)}, (SQUARE,)),
    ("reverse", SQUARE, {"axes": (1,)}, (SQUARE,)),
    ("tile", "f32[512,512]", {"repeats": (2, 2)}, (SQUARE,)),
    ("expand", SQUARE, {"broadcast_dimensions": (0,)}, ("f32[256]",)),
    ("pad", "f32[260,260]", {"low": (2, 2), "high": (2, 2)}, (SQUARE,)),
    ("pad", "f32[63,63]", {"low": (0, 0), "high": (0, 0), "interior": (1, 1)}, ("f32[32,32]",)),
    ("pad", "f32[260,260]", {"low": (2, 2), "high": (2, 2), "mode": "reflect"}, (SQUARE,)),
    ("take", "f32[64,256]", {"axis": 0, "indices": tuple(range(255, 0, -4))}, (SQUARE,)),
    ("iota", "s32[256]", {}, ()),
    ("constant", SQUARE, {}, ()),
    ("causal_mask", SQUARE, {"value": 0.0, "upper": True}, (SQUARE,)),
    ("cumulative", SQUARE, {"axis": 1}, (SQUARE,)),
    ("argmax", "s32[256]", {}, (SQUARE,)),
    ("argmin", "s32[256]", {}, (SQUARE,)),
    ("top_k", "f32[256,4]", {"k": 4}, (SQUARE,)),
    ("reduce_measure", "f32[256]", {"measure": "log_sum_exp", "axes": (1,)}, (SQUARE,)),
    ("scatter", SQUARE, {"axis": 0, "indices": (7, 3, 200, 3), "combiner": "add"},
     (SQUARE, "f32[4,256]")),
    ("gather", "f32[64,256]", {"axis": 0}, (SQUARE, "s32[64]")),
    ("dynamic_scatter", SQUARE, {"axis": 0}, (SQUARE, "f32[4,256]", "s32[4]")),
    ("dynamic_slice", "f32[64,256]", {"sizes": (64, 256)}, (SQUARE, "s32[2]")),
    ("dynamic_update_slice", SQUARE, {}, (SQUARE, "f32[1,256]", "s32[2]")),
    ("depth_to_space", "f32[1,16,16,8]", {"block": 2}, ("f32[1,8,8,32]",)),
    ("space_to_depth", "f32[1,8,8,32]", {"block": 2}, ("f32[1,16,16,8]",)),
    ("lstm", "f32[8,16,128]", {},
     ("f32[8,16,64]", "f32[64,512]", "f32[128,512]", "f32[512]", "f32[16,128]", "f32[16,128]")),
    ("gru", "f32[8,16,128]", {},
     ("f32[8,16,64]", "f32[64,384]", "f32[128,384]", "f32[384]", "f32[384]", "f32[16,128]")),
    ("conv1d", "f32[4,126,64]", {}, ("f32[4,128,32]", "f32[3,32,64]")),
    ("conv3d", "f32[1,6,14,14,32]", {}, ("f32[1,8,16,16,16]", "f32[3,3,3,16,32]")),
    ("conv_transpose", "f32[1,32,32,32]", {"stride": (2, 2)},
     ("f32[1,16,16,64]", "f32[2,2,64,32]")),
    ("conv_input_gradient", "f32[1,16,16,32]", {"padding": (1, 1, 1, 1)},
     ("f32[1,16,16,64]", "f32[3,3,32,64]")),
    ("conv_weight_gradient", "f32[3,3,32,64]", {"padding": (1, 1, 1, 1)},
     ("f32[1,8,8,32]", "f32[1,8,8,64]")),
    ("reduce_window", "f32[1,16,16,64]",
     {"reduction": "mean", "window": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1),
      "count_padding": False}, ("f32[1,32,32,64]",)),
    ("resize", "f32[1,32,32,32]", {"sizes": (32, 32), "interpolation": "nearest"},
     ("f32[1,16,16,32]",)),
    ("resize", "f32[1,32,32,32]", {"sizes": (32, 32), "interpolation": "linear"},
     ("f32[1,16,16,32]",)),
    ("batch_norm", "f32[1,32,32,64]", {},
     ("f32[1,32,32,64]", "f32[64]", "f32[64]", "f32[64]", "f32[64]")),
    ("instance_norm", "f32[1,16,16,64]", {}, ("f32[1,16,16,64]", "f32[64]", "f32[64]")),
    ("group_norm", "f32[1,16,16,64]", {"groups": 8}, ("f32[1,16,16,64]", "f32[64]", "f32[64]")),
    ("select", SQUARE, {}, ("pred[256,256]", SQUARE, SQUARE)),
    ("tensor_scalar", SQUARE, {"operator": "multiply", "number": 3.0}, (SQUARE,)),
    ("clip", SQUARE, {"least": -1.0, "most": 1.0}, (SQUARE,)),
    ("leaky_relu", SQUARE, {"slope": 0.2}, (SQUARE,)),
    ("prelu", SQUARE, {"broadcast_dimensions": (1,)}, (SQUARE, "f32[256]")),
    ("elu", SQUARE, {"alpha": 0.5}, (SQUARE,)),
    ("celu", SQUARE, {"alpha": 2.0}, (SQUARE,)),
    ("hard_sigmoid", SQUARE, {"alpha": 0.2}, (SQUARE,)),
    ("popcount", "s32[256,256]", {}, ("s32[256,256]",)),
    ("matmul_integer", "s32[128,128]", {"left_zero": 3}, ("s8[128,128]", "s8[128,128]")),
    ("conv_integer", "s32[1,14,14,32]", {"left_zero": 3}, ("s8[1,16,16,16]", "s8[3,3,16,32]")),
    ("dot", "f32[256]", {}, (SQUARE, "f32[256]")),
)  # fmt: skip
"""Operations of the page: kind, result, settings, operands."""
RATES = (1, 4, 13, 53, 205, 820)
LATENCIES = (0, 420)
SOURCES = {"rows": "`{1,0}`", "tiles": "`{1,0:T(8,128)}`", "columns": "`{0,1}`"}
BEGIN, END = "<!-- figures: make results -->", "<!-- end -->"


@cache
def summary(file: str, *overrides: str) -> dict[str, Any]:
    """Return the summary of a run file, for its times only, without its sweeps."""
    path = ROOT / "configs" / f"{file}.toml"
    return systolic.run(load_run(path, ["sweep=[]", *overrides]), values=False).summary


def cycles(file: str, *overrides: str) -> int:
    """Return the length of a run."""
    return int(summary(file, *overrides)["cycles"])


def table(header: Sequence[str], numbers: int, rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown whose last columns hold numbers."""
    marks = ["---"] * (len(header) - numbers) + ["---:"] * numbers
    lines = [header, marks, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page(title: str, name: str, *parts: str) -> str:
    """Return the text of a page, which says how it was made."""
    made = f"Generated by `python docs/results/results.py {name}`; every figure is that of a run."
    return "\n\n".join([f"# {title}", made, *parts]) + "\n"


# -- networks and products ------------------------------------------------------------------------


def networks() -> str:
    """Return the page of all networks: what each multiplies, takes, and uses of the array."""
    return page(
        "Networks",
        "networks",
        "From the first byte in DRAM to the last, on a 128 x 128 array; one row is "
        "`systolic run configs/networks/NAME.toml --values none --no-plots`. With values every "
        "element equals numpy's in the machine's order, bit for bit. Utilisation is the share of "
        "the array's multiply-adds that the work needs. `systolic plot layers "
        "configs/networks/resnet50.toml` shows one layer by layer.",
        table(
            ("network", "what", "multiply-adds", "cycles", "utilisation", "times the bound"),
            4,
            (_network(path.stem) for path in NETWORKS),
        ),
        f"The bounds are written down in `benchmarks/network_bounds.csv`: over all, "
        f"{_mean(_times(path.stem) for path in NETWORKS)} times, as a geometric mean.",
        "![the layers of ResNet-50](../pictures/view_layers.png)",
        "## Batches",
        "The first images of `digits_cnn`: "
        "`systolic run configs/networks/digits_cnn.toml --images 0:64 --values none --no-plots`.",
        table(("images", "cycles", "images per second"), 2, map(_batch, BATCHES)),
        "## Other chips",
        "Cycles, and how many times the bound of the chip: `--chip NAME`; of the digits, "
        f"`--images 0:{FEW_IMAGES}`. The arrays of the last three have no s8.",
        table(("network", *(f"`{chip}`" for chip in NETWORK_CHIPS)), len(NETWORK_CHIPS),
              _elsewhere()),
    )  # fmt: skip


def _times(name: str, chip: str = NETWORK_CHIPS[0], images: str = "") -> float:
    """Return how many times its bound a network takes; NaN if the chip has no bound of it."""
    (row,) = [each for each in _bounds() if (each["network"], each["images"]) == (name, images)]
    return _on(name, chip, images) / int(row[chip]) if row[chip] else math.nan


@cache
def _bounds() -> Sequence[Mapping[str, str]]:
    with (ROOT / "benchmarks" / "network_bounds.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _on(name: str, chip: str, images: str) -> int:
    some = [f"workload.images=[0, {images}]"] * bool(images)
    other = [f"chip={chip}"] * (chip != NETWORK_CHIPS[0])
    return cycles(f"networks/{name}", *other, *some)


def _mean(ratios: Iterable[float]) -> str:
    return f"{statistics.geometric_mean(each for each in ratios if not math.isnan(each)):.2f}"


def _elsewhere() -> Iterator[Sequence[str]]:
    """Yield what networks take on several chips, and the means of their ratios."""
    ratios: dict[str, list[float]] = {chip: [] for chip in NETWORK_CHIPS}
    for path in NETWORKS:
        name, found = path.stem, list[str]()
        images = FEW_IMAGES if name.startswith("digits_cnn") else ""
        for chip in NETWORK_CHIPS:
            times = _times(name, chip, images)
            ratios[chip].append(times)
            said = "-" if math.isnan(times) else f"{_on(name, chip, images):,} ({times:.2f})"
            found.append(said)
        yield name, *found
    yield "geometric mean", *map(_mean, ratios.values())


def _batch(images: int) -> tuple[str, ...]:
    found = summary("networks/digits_cnn", f"workload.images=[0, {images}]")
    return str(images), f"{found['cycles']:,}", f"{round(found['images_per_second']):,}"


def _network(name: str) -> tuple[str, ...]:
    path = ROOT / "configs" / "networks" / f"{name}.toml"
    config, found = load_run(path), summary(f"networks/{name}")
    useful = sum(each["multiply_adds"] for each in found["operations"])
    pes = config.chip.pe_array.rows * config.chip.pe_array.cols
    share = f"{100 * useful / (pes * found['cycles']):.1f} %"
    times = f"{_times(name):.2f}"
    return f"`{name}`", config.description, f"{useful:,}", f"{found['cycles']:,}", share, times


def products() -> str:
    """Return the page of products against the bound that no schedule can beat."""
    return page(
        "Products and what no schedule can beat",
        "products",
        "bfloat16 on the ideal 128 x 128 array; one row is `systolic run configs/runs/NAME.toml "
        "--values none`. [bounds.md](../bounds.md) says what the bound counts.",
        table(
            ("run", "product", "cycles", "bound", "above it"),
            3,
            ((f"`{name}`", what, *_above(f"runs/{name}")) for name, what in PRODUCTS.items()),
        ),
    )


def _above(file: str, *overrides: str) -> tuple[str, str, str]:
    taken, bound = cycles(file, *overrides), summary(file, *overrides)["bound"]["cycles"]
    return f"{taken:,}", f"{bound:,}", f"{100 * (taken - bound) / bound:.1f} %"


# -- ordinary work --------------------------------------------------------------------------------

WORK_CHIPS = ("ideal_128x128", "neuroncore_v2", "hbm3_128x128")
PRODUCT_CHIPS = ("ideal_128x128", "patent_128x64", "neuroncore_v2")
SEED, DRAWN = 41207, 100


def works() -> str:
    """Return the page of ordinary work: named works on three chips each, and works of a seed."""
    sys.path.append(str(ROOT / "benchmarks"))
    script: Any = runpy.run_path(str(ROOT / "benchmarks" / "bench_works.py"), run_name="works")
    named = {name: graph for name, _, graph in script["ordinary_works"]()}
    multiplies = {n for n, g in named.items() if g.operations[0].kind in ("conv2d", "matmul")}
    return page(
        "Ordinary work",
        "works",
        "The works of `benchmarks/ordinary_works.csv`, which has a run file for each, to be run "
        "as `systolic run configs/runs/matmul_chain.toml --values none` is: cycles, and how many "
        "times as long as the number that stands in the file for the chip or, where none stands, "
        "as the bound, or a copy's latency and what must move. "
        "`python benchmarks/bench_works.py` measures them on all chips.",
        _named(script, named.keys() - multiplies, WORK_CHIPS),
        "## Convolutions",
        "bfloat16, one image, from DRAM to DRAM, channels last where nothing is said. The numbers "
        "count what the array or DRAM needs, and nothing for turning channels that come first.",
        _named(script, multiplies, PRODUCT_CHIPS),
        "## Works drawn by a seed",
        f"`python benchmarks/bench_works.py --seed {SEED} --works 0:{DRAWN}`: a third moves and "
        "products, a third element by element and structural, a third convolutions, pools, "
        "reductions and norms, on all chips of one core, against the same. Works without a "
        "bound, which need not move, have no ratio. Works on the chip are short: there a bound is "
        "a few cycles.",
        table(("from and to", "ratios", "refused", "median", "nine tenths", "worst"), 5,
              _drawn(script)),
    )  # fmt: skip


def _named(script: Any, names: Collection[str], on: Sequence[str]) -> str:
    """Return the table of works on some chips."""
    found: dict[str, list[str]] = {}
    for _, (chip, name, least, graph) in script["named_works"](_chips(on)):
        if name in names:
            taken = script["measured"](graph, _chips(on)[chip], values=False, seed=0)
            found.setdefault(name, []).extend((f"{taken:,}", f"{taken / least:.2f}"))
    header = ("work", *(cell for name in on for cell in (f"`{name}`", "ratio")))
    return table(header, 2 * len(on), ((name, *cells) for name, cells in found.items()))


def _drawn(script: Any) -> Iterator[tuple[str, ...]]:
    """Yield how far works of the seed are from their bounds, by where their tensors live."""
    chips, ratios, refused = _chips(script["ALL"]), dict[str, list[float]](), Counter[str]()
    for _, (chip, _, least, graph) in script["random_works"](SEED, range(DRAWN), chips):
        home = "DRAM" if graph.tensors[0][1].home == "dram" else "the chip"
        try:
            taken = script["measured"](graph, chips[chip], values=False, seed=0)
        except CompileError:
            refused[home] += 1
            continue
        ratios.setdefault(home, []).extend([taken / least] if least else [])
    for home, each in ratios.items():
        said = (f"{ratio:.2f}" for ratio in script["spread"](each))
        yield home, str(len(each)), str(refused[home]), *said


def _chips(names: Iterable[str]) -> dict[str, Chip]:
    return {name: load_chip(shipped.CHIPS / f"{name}.toml") for name in names}


# -- operations -----------------------------------------------------------------------------------


def operations() -> str:
    """Return the page of operations on two chips against their bounds."""
    return page(
        "Operations and what no schedule can beat",
        "operations",
        "One operation each, from DRAM to DRAM, on two chips, run as "
        "`systolic run configs/runs/matmul_chain.toml --values none` is. The bound counts the "
        "bytes that must move and what must be calculated ([bounds.md](../bounds.md)), and knows "
        "nothing of the parts that an operation is made of.",
        table(
            ("operation", "of", *(f"{chip}{what}" for chip in CHIPS for what in ("", ", bound"))),
            4,
            map(_operation, OPERATIONS_TRIED),
        ),
    )


def _operation(row: tuple[str, str, dict[str, Any], tuple[str, ...]]) -> tuple[str, ...]:
    kind, out, given, inputs = row
    builder = GraphBuilder("dram")
    names = [builder.tensor(f"x{number}", shape) for number, shape in enumerate(inputs)]
    builder.add(kind, names, out, name="y", **given)
    graph, found = builder.graph(), list[str]()
    for chip in CHIPS:
        try:
            made = systolic.run(graph, chip, values=False).summary
        except CompileError:  # its array lacks the type
            found += ["refused", "-"]
            continue
        found += [f"{made['cycles']:,}", f"{made['bound']['cycles']:,}"]
    said = ", ".join(f"{key} = {value}" for key, value in given.items() if key != "indices")
    what = f"{', '.join(inputs) or 'nothing'} to {out}" + f" ({said})" * bool(said)
    return f"`{kind}`", what, *found


# -- array or DRAM --------------------------------------------------------------------------------


def transposes() -> str:
    """Return the page of transposes through the array, and by DMA alone."""
    on_chip, dram = _map("state_buffer"), _map("dram")
    lost = [size for size, ratio in dram.items() if ratio <= 1]
    wide = [rows * columns for rows, columns in lost if 1 not in (rows, columns)]
    narrow = {
        columns: max(ratio for (_, wide), ratio in dram.items() if wide == columns)
        for columns in (2, 4, 8)
    }
    said = ", ".join(f"{columns} columns {ratio_text(most)}" for columns, most in narrow.items())
    return page(
        "Transposing in the array, or on the way to DRAM",
        "transposes",
        "The patent claims that the array transposes sooner than a copy to DRAM and back. On its "
        "128 x 64 array (`configs/chips/patent_128x64.toml` cites the figures of DRAM) every f32 "
        "size from 1 x 1 to 4096 x 4096 was turned both ways (`python docs/pictures/"
        "transpose_map.py`, [transpose_map.csv](../pictures/transpose_map.csv)). The compiler "
        "takes the sooner way by itself.",
        "![who wins by how much, for every size](../pictures/transpose_map.png)",
        table(("f32", "array, cycles", "DMA alone, cycles", "DMA takes"), 3, map(_ways, SIZES)),
        f"* *On the chip* the array wins everywhere, by {ratio_text(min(on_chip.values()))} to "
        f"{ratio_text(max(on_chip.values()))}.\n"
        f"* *From DRAM to DRAM* it loses {len(lost)} of {len(dram)} sizes: single rows and "
        f"columns, and sizes of at most {max(wide)} elements. Narrow matrices are won by little: "
        f"at most, with {said}.\n"
        f"* *On the chip* DRAM's bandwidth and latency change the time by DMA by at most "
        f"{_spread():.1f} %: descriptors decide.\n"
        f"* *From DRAM to DRAM*, 512 x 512, by bytes per cycle of DRAM: {_by_rate()}; by cycles "
        f"of latency: {_by_latency()}.",
        "`systolic run configs/runs/transpose_vs_dram.toml` runs these sweeps:",
        "![array against DRAM](../pictures/transpose_vs_dram.png)",
    )


def _map(home: str) -> dict[tuple[int, int], float]:
    script: Any = runpy.run_path(str(ROOT / "docs" / "pictures" / "transpose_map.py"))
    cells = script["read_csv"](ROOT / "docs" / "pictures" / "transpose_map.csv")
    return {(c.rows, c.columns): c.ratio for c in cells if c.home == home and c.ratio}


def _ways(size: tuple[str, str, str]) -> tuple[str, ...]:
    label, home, shape = size
    array, dma = (_versus(home, f"workload.shape={shape}", way) for way in (ARRAY, DMA))
    return label, f"{array:,}", f"{dma:,}", ratio_text(dma / array)


def _versus(*overrides: str) -> int:
    return cycles("runs/transpose_vs_dram", *overrides)


def _ratio(*overrides: str) -> str:
    work = (FROM_DRAM, "workload.shape=f32[512,512]", *overrides)
    return ratio_text(_versus(*work, DMA) / _versus(*work, ARRAY))


def _spread() -> float:
    """Return by how many percent the time by DMA varies on the chip, the worse of both sweeps."""
    sweeps = [
        [_versus(DMA, f"chip.dram.bytes_per_cycle={rate}") for rate in (13, 820)],
        [_versus(DMA, f"chip.dram.latency_cycles={latency}") for latency in LATENCIES],
    ]
    return max(100 * (max(each) / min(each) - 1) for each in sweeps)


def _by_rate() -> str:
    return ", ".join(f"{n}: {_ratio(f'chip.dram.bytes_per_cycle={n}')}" for n in RATES)


def _by_latency() -> str:
    return ", ".join(f"{n}: {_ratio(f'chip.dram.latency_cycles={n}')}" for n in LATENCIES)


# -- layouts --------------------------------------------------------------------------------------


def layouts() -> str:
    """Return the page of one transpose with its source in three layouts, on two chips."""
    chips = {
        "ddr4_2400_128x128": "the data sheet's four channels of DDR4-2400, 64 bursts in hand for "
        "each queue, all timings and refresh",
        "ddr4_128x128": "the same channels as a teaching model: one burst in hand for each queue "
        "and few timings, so that what a burst finds in its bank is seen in the cycles",
    }
    parts = []
    for chip, what in chips.items():
        parts += [
            f"`{chip}` is {what}:",
            table(
                ("source", "array, cycles", "bursts", "row hits", "DMA alone, cycles", "bursts",
                 "row hits"),
                6,
                ((name, *_layout(chip, source)) for source, name in SOURCES.items()),
            ),
        ]  # fmt: skip
    return page(
        "What a layout costs",
        "layouts",
        "A transpose of f32[512,512] from DRAM to DRAM, its source in three layouts: "
        "`systolic run configs/runs/transpose_ddr4_rows.toml --chip ddr4_2400_128x128`, and "
        "`..._tiles`, `..._columns`; by DMA alone with `--set compile.via=dram`. `{0,1}` has the "
        "order of the result already, so nothing is turned. If DMA turns the matrix every run is "
        "one element, and each element costs a burst; the array reads long runs instead. "
        "[layouts.md](../layouts.md) says what the layouts mean.",
        *parts,
    )


def _layout(chip: str, source: str) -> Iterable[str]:
    file, on = f"runs/transpose_ddr4_{source}", f"chip={chip}"
    for overrides in ((on,), (on, DMA)):
        dram = summary(file, *overrides)["transfers"]["dram"]
        hits = 100 * dram["hits"] / (dram["hits"] + dram["opened"] + dram["conflicts"])
        yield from (f"{cycles(file, *overrides):,}", f"{dram['bursts']:,}", f"{hits:.0f} %")


# -- published figures ----------------------------------------------------------------------------


def validation() -> str:
    """Return the page of what `systolic validate` prints."""
    found = list(validate(read_table(table_file("neuroncore"))))
    return page(
        "Published figures of the NeuronCore against ours",
        "validation",
        "`systolic validate` prints this. A `*` marks a row that is outside its tolerance for a "
        "reason that the table names. [neuroncore.md](../neuroncore.md) says where the figures "
        "come from, and [validation.md](../validation.md) how to hold a machine of your own "
        "against its figures.",
        "```text\n" + "\n".join(validation_text(found)) + "\n```",
    )


# -- ONNX -----------------------------------------------------------------------------------------


OUT_OF_SCOPE = {
    "type": "out of scope: a type that no chip has, text, or no elements",
    "opset": "out of scope: an operator of opset 24 or later, or a model of one before 7",
    "operator": "out of scope: another operator",
}


def onnx() -> str:
    """Return the page of the node cases of the package onnx."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.onnx_node_cases import node_cases, operator_of, out_of_scope, outcome

    found = {
        name: out_of_scope(case.model) or outcome(case, "ideal_128x128").kind
        for name, case in node_cases().items()
    }
    kinds = Counter(found.values())
    by_operator: dict[str, Counter[str]] = {}
    for name, kind in found.items():
        operator = operator_of(node_cases()[name].model)
        by_operator.setdefault(operator, Counter())[kind] += 1
    inside = {name: each for name, each in by_operator.items() if each["passed"] + each["refused"]}
    return page(
        "ONNX's own cases",
        "onnx",
        f"The package `onnx` makes {len(found):,} cases of single nodes, and of the functions that "
        "they are, with stored results. Each in scope is imported and run on `ideal_128x128`, as "
        "`systolic run net.onnx --chip ideal_128x128` does. Passed is a case whose values are "
        "within 2e-4 of the largest, integers exactly; refused is one that ends in a line.",
        table(
            ("what", "cases"),
            1,
            [
                ("passed", f"{kinds['passed']:,}"),
                ("refused", f"{kinds['refused']:,}"),
                ("wrong", f"{kinds['wrong']:,}"),
                *((text, f"{kinds[key]:,}") for key, text in OUT_OF_SCOPE.items()),
            ],
        ),
        "## By operator",
        "Cases of several nodes are functions of ONNX written out.",
        table(
            ("operator", "passed", "refused"),
            2,
            ((n, f"{inside[n]['passed']}", f"{inside[n]['refused']}") for n in sorted(inside)),
        ),
    )


PAGES: dict[str, Callable[[], str]] = {
    "networks": networks,
    "products": products,
    "works": works,
    "operations": operations,
    "transposes": transposes,
    "layouts": layouts,
    "validation": validation,
    "onnx": onnx,
}


# -- README ---------------------------------------------------------------------------------------


def figures() -> str:
    """Return the figures of README.md, as the pages have them."""
    taken, share, _ = _cells("networks", "`resnet50`")[-3:]
    product, _, above = _cells("products", "`matmul_1024_onchip`")[-3:]
    (within,) = [line for line in _lines("validation") if line.endswith("within their tolerance")]
    return "\n".join(
        (
            f"* **{taken} cycles** for one image through ResNet-50 on a 128 x 128 array, "
            f"{share} of the array's multiply-adds: [networks](docs/results/networks.md).",
            f"* **{above} above the bound** that no schedule can beat: a product of 1024 x 1024 x "
            f"1024 in {product} cycles: [products](docs/results/products.md).",
            f"* **{within.removesuffix(' rows within their tolerance')}** published figures of "
            "the NeuronCore are met within their tolerance: "
            "[validation](docs/results/validation.md).",
        )
    )


def _lines(name: str) -> list[str]:
    return (HERE / f"{name}.md").read_text(encoding="utf-8").splitlines()


def _cells(name: str, first: str) -> list[str]:
    (line,) = [line for line in _lines(name) if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def with_figures(readme: str) -> str:
    """Return the text of README.md with the figures that the pages have."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{figures()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Write the pages that are asked for, or all, and then the figures of README.md."""
    for name in sys.argv[1:] or PAGES:
        (HERE / f"{name}.md").write_text(PAGES[name](), encoding="utf-8")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if BEGIN in text:
        readme.write_text(with_figures(text), encoding="utf-8")


if __name__ == "__main__":
    main()
