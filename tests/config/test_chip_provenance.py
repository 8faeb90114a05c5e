"""Does every value of a NeuronCore chip say where it comes from, and are false sources refused?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from systolic.config import load_chip, to_toml
from systolic.config.chip_values import DEFAULT, ChipValue, chip_values
from systolic.errors import ConfigError
from systolic.hw.spec.provenance import MARKS

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
NEURON_CORES = sorted(CHIPS.glob("neuroncore_*.toml"))
SMALL = (CHIPS / "ideal_4x4.toml").read_text(encoding="utf-8")


def values_of(path: Path) -> dict[str, ChipValue]:
    return {value.key: value for value in chip_values(load_chip(path))}


def with_sources(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "chip.toml"
    path.write_text(f"{SMALL}\n[provenance.sources]\n{text}\n", encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_chip(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_there_are_four_generations() -> None:
    assert [path.stem for path in NEURON_CORES] == [f"neuroncore_v{n}" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("path", NEURON_CORES, ids=lambda path: path.stem)
def test_every_value_in_the_file_has_a_source(path: Path) -> None:
    found = values_of(path).values()
    assert [v.key for v in found if v.mark not in (*MARKS, DEFAULT)] == []
    assert all(v.source for v in found if v.mark != DEFAULT)


@pytest.mark.parametrize("path", NEURON_CORES, ids=lambda path: path.stem)
def test_the_short_names_of_sources_are_explained_and_used(path: Path) -> None:
    told = load_chip(path).provenance
    assert told is not None
    texts = [*told.sources.values(), *told.contradictions.values(), *told.references.values()]
    for name in told.references:
        assert any(name in text for text in texts), f"{name} is not cited"


# Peak TFLOPS of 16-bit and float32 products, MiB of state buffer and result buffer, GB/s of DMA
# and of DRAM, as published.
PUBLISHED: dict[str, tuple[float, float | None, float | None, float | None, float | None]] = {
    "neuroncore_v1": (16, None, None, None, None),
    "neuroncore_v2": (92, 23, 24, 2, 272),
    "neuroncore_v3": (79, 20, 28, 2, 368),
    "neuroncore_v4": (79, 20, 32, 2, 528),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_totals_follow_from_the_keys(name: str) -> None:
    chip = load_chip(CHIPS / f"{name}.toml")
    array = chip.pe_array
    rate = 2 * array.rows * array.cols * chip.clock_mhz("pe_array") / 1e6
    dma = chip.dma.lone_bytes_per_cycle * chip.clock_mhz("dma") / 1000
    mib = 1 << 20
    state = chip.state_buffer.partitions * chip.state_buffer.bytes_per_partition / mib
    result = array.cols * chip.result_buffer.bytes_per_partition / mib
    bf16 = rate / array.cycles_per_vector["bf16"]
    f32 = rate / array.cycles_per_vector.get("f32", 1) / array.passes.get("f32", 1)
    found = (bf16, f32, state, result, dma)
    for ours, published in zip(found, PUBLISHED[name], strict=True):
        assert published is None or ours == pytest.approx(published, rel=0.025)


def test_the_nearest_entry_around_a_value_holds(tmp_path: Path) -> None:
    text = '"pe_array" = "chosen: all"\n"pe_array.rows" = "published: of rows"'
    found = values_of(with_sources(tmp_path, text))
    assert (found["pe_array.rows"].mark, found["pe_array.rows"].source) == ("published", "of rows")
    assert (found["pe_array.cols"].mark, found["pe_array.cols"].source) == ("chosen", "all")
    assert found["state_buffer.partitions"].mark == ""
    assert found["pe_array.dispatch"].mark == DEFAULT


def test_a_source_makes_no_difference_to_a_default(tmp_path: Path) -> None:
    """An entry of its own is shown at a key that the file leaves out."""
    found = values_of(with_sources(tmp_path, '"dma.outstanding" = "chosen: 1 is the least"'))
    assert found["dma.outstanding"].mark == "chosen"


def test_provenance_prints_back(tmp_path: Path) -> None:
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    (tmp_path / "again.toml").write_text(to_toml(chip), encoding="utf-8")
    assert load_chip(tmp_path / "again.toml").provenance == chip.provenance


REFUSED: dict[str, Any] = {
    '"pe_array.rows" = "publishd: ARCH"': (
        '[provenance] sources: pe_array.rows: needs "MARK: text" with one of published, fitted, '
        'inferred, chosen, found "publishd"; perhaps "published"'
    ),
    '"pe_array.rows" = "published"': (
        '[provenance] sources: pe_array.rows: says nothing behind "published"'
    ),
    '"pe_array.rwos" = "published: ARCH"': (
        'provenance.sources: pe_array.rwos: no "rwos" (there are: '
    ),
    '"pe_array.rows.first" = "published: ARCH"': (
        'provenance.sources: pe_array.rows.first: no "first" (a value has no keys)'
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str, tmp_path: Path) -> None:
    assert refusal(with_sources(tmp_path, text)).startswith(REFUSED[text])


def test_a_contradiction_names_a_key(tmp_path: Path) -> None:
    path = tmp_path / "chip.toml"
    path.write_text(f'{SMALL}\n[provenance.contradictions]\n"speed" = "x"\n', encoding="utf-8")
    assert refusal(path).startswith('provenance.contradictions: speed: no "speed" (there are: ')
