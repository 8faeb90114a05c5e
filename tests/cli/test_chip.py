"""Does `systolic chip` print what the chip file says, and refuse in one line?"""

from __future__ import annotations

import json

from support.command_line import refused, run_command
from systolic.config import load_chip
from systolic.shipped import CHIPS


def test_show_prints_every_value_with_mark_and_source() -> None:
    status, out, _ = run_command("chip", "show", "neuroncore_v2")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 0
    assert "pe_array.rows 128 published: ARCH" in lines
    assert "pe_array.dispatch_cycles 0 default" in lines
    assert any(line.startswith("pe_array.entry_cycles 72 fitted: to a MATMUL") for line in lines)


def test_show_names_contradictions_and_the_choice() -> None:
    _, out, _ = run_command("chip", "show", "neuroncore_v3")
    _, _, told = out.partition("sources that contradict one another:\n")
    assert "  dram.bytes_per_cycle: 3 TB/s (ARCH) or 2.9 (CHIP): the lesser\n" in told
    assert "  clock.tensor: 667 TFLOPS" in told


def test_show_as_json_has_the_same() -> None:
    status, out, _ = run_command("chip", "show", "neuroncore_v2", "--json")
    found = json.loads(out)
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    assert chip.provenance is not None
    assert status == 0
    assert found["name"] == chip.name
    assert {"key": "pe_array.rows", "value": 128, "mark": "published", "source": "ARCH"} in found[
        "values"
    ]
    assert {each["key"] for each in found["contradictions"]} == set(chip.provenance.contradictions)
    assert found["references"] == chip.provenance.references


def test_a_chip_without_sources_is_shown_too() -> None:
    status, out, _ = run_command("chip", "show", "ideal_4x4")
    assert status == 0
    assert out.splitlines()[-1].endswith(" without a source") or "without a source," in out


def test_list_has_every_shipped_chip() -> None:
    status, out, _ = run_command("chip", "list")
    assert status == 0
    names = [path.stem for path in sorted(CHIPS.glob("*.toml"))]
    assert [line.split()[0] for line in out.splitlines()] == names
    _, out, _ = run_command("chip", "list", "--json")
    assert [each["name"] for each in json.loads(out)] == names


def test_refusals() -> None:
    assert (
        refused("chip", "shwo")
        == "no action 'shwo' (known: show, list); perhaps \"show\" was meant"
    )
    assert refused("chip", "show") == "show needs the name or the file of a chip"
    assert refused("chip", "list", "ideal_4x4") == "list takes no chip, found 'ideal_4x4'"
    assert refused("chip", "show", "neuroncore_v5").startswith(
        'chip show: chip: no chip "neuroncore_v5" (known: '
    )
