"""Has a number moved? Shipped runs against pinned counts, and the tests of `systolic check`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from support.command_line import refused, run_command
from systolic.errors import ConfigError
from systolic.run.pins.check import Selection, check, update
from systolic.run.pins.compare import compare
from systolic.run.pins.file import PINS, pins_text, read_pins
from systolic.run.pins.pin import Pin
from systolic.run.pins.works import folder_of_shipped, name_of, shipped_runs
from systolic.shipped import CONFIGS

FIG3 = next(path for path in shipped_runs() if path.stem == "transpose_fig3")
LAYER = CONFIGS / "programs" / "layer.txt"
PIN = Pin(
    tier="operation",
    reason="because",
    cycles=20,
    units={"pe_array": {"streaming": 5, "idle": 15}, "dma0": {"idle": 20}},
)


LARGE = {"transpose_formats", "digits_cnn", "digits_cnn_int8", "mobilenet_v2", "mobilenet_v2_int8",
         "resnet50", "resnet50_int8"}  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in LARGE else [], id=path.stem)
        for path in shipped_runs()
    ],
)
def test_no_number_has_moved(path: Path) -> None:
    moved = [finding.text for finding in check(Selection([path])) if not finding.ok]
    assert not moved, "\n".join(moved)


def test_nothing_is_pinned_that_is_not_shipped() -> None:
    runs = {name_of(path, folder_of_shipped(path)) for path in shipped_runs()}
    assert {"transpose_fig3", "networks/digits_mlp", "programs/exchange.txt"} < runs
    assert {name.split(",")[0] for name in read_pins(PINS)} == runs


def test_every_pin_has_a_reason_and_its_labels_sum() -> None:
    for name, pin in read_pins(PINS).items():
        assert pin.tier in ("operation", "program", "system"), name
        assert len(pin.reason) > 10, name
        if pin.tier == "system":
            hops = pin.operations["packet_hops"]
            assert pin.units["links"]["sending"] >= hops >= pin.operations["packets"] > 0, name
            continue
        array = next(unit for unit in pin.units if unit.endswith("pe_array"))
        assert sum(pin.units[array].values()) == pin.cycles, name


def test_the_shipped_file_is_what_an_update_would_write() -> None:
    assert pins_text(read_pins(PINS), shipped=True) == PINS.read_text("utf-8")


class TestCompare:
    """One run against its pin."""

    def test_as_pinned(self) -> None:
        finding = compare("x", PIN, replace(PIN, reason="another", tier="program"))
        assert (finding.ok, finding.text) == (True, "x: 20 cycles, as pinned")

    def test_missing(self) -> None:
        finding = compare("x", None, PIN)
        assert (finding.ok, finding.is_new) == (False, True)
        assert finding.text == "x: 20 cycles, not pinned"

    def test_which_unit_moved_and_by_how_much(self) -> None:
        units = {"pe_array": {"streaming": 7, "loading": 1, "idle": 15}, "dma0": {"idle": 20}}
        finding = compare("x", PIN, replace(PIN, cycles=23, units=units))
        assert not finding.ok
        assert finding.text == (
            "x: 20 -> 23 (+3) cycles\n  pe_array: streaming 5 -> 7 (+2), loading 0 -> 1 (+1)"
        )

    def test_same_length_but_another_unit(self) -> None:
        units = {"pe_array": PIN.units["pe_array"], "dma1": {"idle": 20}}
        assert compare("x", PIN, replace(PIN, units=units)).text == (
            "x: 20 -> 20 (+0) cycles\n  dma0: idle 20 -> 0 (-20)\n  dma1: idle 0 -> 20 (+20)"
        )

    def test_which_operation_moved(self) -> None:
        pinned = replace(PIN, operations={"h": 7, "y": 9})
        found = replace(PIN, operations={"h": 7, "y": 8, "z": 1})
        assert compare("x", pinned, pinned).ok
        assert compare("x", pinned, found).text == (
            "x: 20 -> 20 (+0) cycles\n  operations: y 9 -> 8 (-1), z 0 -> 1 (+1)"
        )
        assert compare("x", PIN, found).ok  # a file of counts without operations

    @pytest.mark.parametrize(
        ("tolerance", "moved"),
        [
            ({}, ["cycles", "pe_array", "dma0", "operations"]),
            ({"cycles": 2}, ["pe_array", "dma0", "operations"]),
            ({"cycles": 1}, ["cycles", "pe_array", "dma0", "operations"]),
            ({"units": 2}, ["cycles", "operations"]),
            ({"units": 1}, ["cycles", "pe_array", "operations"]),
            ({"units.pe_array": 2}, ["cycles", "dma0", "operations"]),
            ({"units.pe_array.idle": 2}, ["cycles", "dma0", "operations"]),
            ({"units": 2, "units.pe_array.idle": 0}, ["cycles", "pe_array", "operations"]),
            ({"units.pe_array.streaming": 2}, ["cycles", "pe_array", "dma0", "operations"]),
            ({"operations.h": 4}, ["cycles", "pe_array", "dma0"]),
            ({"operations": 3, "cycles": 2, "units": 2}, ["operations"]),
            ({"operations": 4, "cycles": 2, "units": 2}, []),
        ],
    )
    def test_tolerance(self, tolerance: dict[str, int], moved: Sequence[str]) -> None:
        """The run is 2 longer, pe_array idle 2 more, dma0 1 less, operation h 4 less."""
        pinned = replace(PIN, operations={"h": 7}, tolerance=tolerance)
        units = {"pe_array": {"streaming": 5, "idle": 17}, "dma0": {"idle": 19}}
        finding = compare("x", pinned, replace(pinned, cycles=22, units=units, operations={"h": 3}))
        assert finding.ok is (not moved)
        lines = [line.split(":")[0].strip() for line in finding.text.splitlines()[1:]]
        assert lines == [each for each in moved if each != "cycles"]
        if not moved:
            assert finding.text == "x: 20 -> 22 (+2) cycles, within the tolerance of the pin"
        only = compare("x", replace(PIN, tolerance=tolerance), replace(PIN, cycles=22))
        assert only.ok is ("cycles" not in moved)


class TestCommand:
    """`systolic check`, from pins written by `--update` to one that has moved."""

    def test_update_then_compare_then_move(self, tmp_path: Path) -> None:
        pins = tmp_path / "pins.toml"
        command = ["check", str(FIG3), "--pins", str(pins), "--runs", str(FIG3.parent)]
        pins.write_text("", encoding="utf-8")
        line = "transpose_fig3: 19 cycles, not pinned (--update --pins FILE pins them)\n"
        assert run_command(*command) == (1, line, "")
        assert run_command(*command, "--update")[0] == 0
        assert run_command(*command) == (0, "transpose_fig3: 19 cycles, as pinned\n", "")
        text = pins.read_text(encoding="utf-8")
        pins.write_text(text.replace("streaming = 4", "streaming = 3", 1), encoding="utf-8")
        status, out, _ = run_command(*command)
        assert (status, "  pe_array: streaming 3 -> 4 (+1)\n" in out) == (1, True)

    def test_update_keeps_reasons_and_other_pins(self, tmp_path: Path) -> None:
        pins = tmp_path / "pins.toml"
        update(Selection([FIG3], pins, FIG3.parent))
        text = pins.read_text(encoding="utf-8")
        reason = tomllib.loads(text)["transpose_fig3"]["reason"]
        text = text.replace(reason, "mine").replace("cycles = 19", "cycles = 1")
        mine = text[text.index("[transpose_fig3]") : text.index("[chips.")]
        another = mine.replace("transpose_fig3", "another")
        pins.write_text(another + text, encoding="utf-8")
        update(Selection([FIG3], pins, FIG3.parent))
        found = read_pins(pins)
        assert (found["transpose_fig3"].cycles, found["transpose_fig3"].reason) == (19, "mine")
        assert found["another"].cycles == 1

    def test_a_pin_without_its_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pins = tmp_path / "pins.toml"
        update(Selection([FIG3], pins, FIG3.parent))
        pins.write_text(
            pins.read_text(encoding="utf-8").replace("transpose_fig3", "gone"), encoding="utf-8"
        )
        monkeypatch.setattr("systolic.run.pins.check.shipped_runs", lambda: [FIG3])
        findings = {finding.text: finding.ok for finding in check(Selection((), pins))}
        assert findings["gone: is pinned, but no shipped run has that name"] is False

    def test_update_of_all_forgets_what_is_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pins = tmp_path / "pins.toml"
        update(Selection([FIG3], pins, FIG3.parent))
        pins.write_text(
            pins.read_text(encoding="utf-8").replace("transpose_fig3", "gone"), encoding="utf-8"
        )
        monkeypatch.setattr("systolic.run.pins.check.shipped_runs", lambda: [FIG3])
        update(Selection((), pins))
        assert list(read_pins(pins)) == ["transpose_fig3"]

    def test_update_needs_a_file_to_write(self, tmp_path: Path) -> None:
        before = PINS.read_bytes()
        for runs in ([], [FIG3]):
            line = refused("check", *runs, "--update")
            assert line.startswith("an update needs the file of counts to write (")
            assert line.endswith(" (--pins FILE)")
        assert PINS.read_bytes() == before

    def test_the_shipped_counts_are_written_when_they_are_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The maintenance of the project: `check --update --pins configs/pinned_cycles.toml`."""
        (tmp_path / "runs").mkdir()
        own = tmp_path / "runs" / "fig3.toml"
        own.write_text(f"{FIG3.read_text('utf-8')}\n", encoding="utf-8")
        monkeypatch.setattr("systolic.run.pins.works.CONFIGS", tmp_path)
        for module in ("check", "file"):
            monkeypatch.setattr(f"systolic.run.pins.{module}.PINS", tmp_path / "pinned_cycles.toml")
        pins = tmp_path / "pinned_cycles.toml"
        assert run_command("check", "--update", "--pins", pins)[1] == f"1 count written to {pins}\n"
        assert list(read_pins(pins)) == ["fig3"]
        assert run_command("check")[0] == run_command("check", own)[0] == 0
        assert run_command("check", own, "--pins", pins, "--update")[0] == 0
        assert list(read_pins(pins)) == ["fig3"]

    def test_two_runs_of_one_file_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for folder, size in (("a", 4), ("b", 3)):
            Path(folder).mkdir()
            text = f'chip = "ideal_4x4"\n[workload]\nop = "transpose"\nshape = "f32[{size},4]"\n'
            Path(folder, "mm.toml").write_text(text, encoding="utf-8")
        both = ("a/mm.toml", "b/mm.toml", "--pins", "p.toml")
        assert run_command("check", *both, "--update")[1] == "2 counts written to p.toml\n"
        assert list(read_pins(Path("p.toml"))) == ["a/mm", "b/mm"]
        status, out, _ = run_command("check", *both)
        assert (status, out.count(", as pinned")) == (0, 2)
        monkeypatch.chdir(tmp_path / "a")  # the names do not depend on the folder one works in
        assert run_command("check", "mm.toml", "--pins", "../p.toml")[0] == 0
        assert run_command("check", "mm.toml", "--pins", "../p.toml", "--runs", "../b")[0] == 1

    def test_a_run_of_ones_own_needs_counts_of_its_own(self, tmp_path: Path) -> None:
        own = tmp_path / "transpose_fig3.toml"
        own.write_bytes(FIG3.read_bytes())
        assert "did not come with systolic" in refused("check", own)

    def test_damaged_pins(self, tmp_path: Path) -> None:
        pins = tmp_path / "pins.toml"
        pins.write_text("[x]\ncycles = 3\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=r"\[x\] needs tier, reason, cycles and units$"):
            list(check(Selection([FIG3], pins)))

    def test_nothing_shipped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("systolic.run.pins.works.CONFIGS", tmp_path)
        with pytest.raises(ConfigError, match=r"no run files; name the ones to check$"):
            list(check(Selection()))
