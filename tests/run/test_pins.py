"""Has a number moved? Shipped runs against pinned counts, and the tests of `systolic check`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from support.command_line import refused, run_command
from systolic.cli.main import call
from systolic.errors import ConfigError
from systolic.run.pins import (
    PINS,
    check,
    compare,
    folder_of_shipped,
    name_of,
    read_pins,
    shipped_runs,
)

FIG3 = next(path for path in shipped_runs() if path.stem == "transpose_fig3")
PIN: dict[str, Any] = {
    "tier": "operation",
    "reason": "because",
    "cycles": 20,
    "units": {"pe_array": {"streaming": 5, "idle": 15}, "dma0": {"idle": 20}},
}


@pytest.mark.parametrize("path", shipped_runs(), ids=lambda path: path.stem)
def test_no_number_has_moved(path: Path) -> None:
    moved = [finding.text for finding in check([path]) if not finding.ok]
    assert not moved, "\n".join(moved)


def test_nothing_is_pinned_that_is_not_shipped() -> None:
    runs = {name_of(path, folder_of_shipped(path)) for path in shipped_runs()}
    assert {"transpose_fig3", "networks/digits_mlp", "networks/digits_cnn"} < runs
    assert {name.split(",")[0] for name in read_pins(PINS)} == runs


def test_every_pin_has_a_reason_and_its_labels_sum() -> None:
    for name, pin in read_pins(PINS).items():
        assert pin["tier"] in ("operation", "program"), name
        assert len(pin["reason"]) > 10, name
        assert sum(pin["units"]["pe_array"].values()) == pin["cycles"], name


class TestCompare:
    """One run against its pin."""

    def test_as_pinned(self) -> None:
        finding = compare("x", PIN, {**PIN, "reason": "another", "tier": "program"})
        assert (finding.ok, finding.text) == (True, "x: 20 cycles, as pinned")

    def test_missing(self) -> None:
        finding = compare("x", None, PIN)
        assert (finding.ok, finding.is_new) == (False, True)
        assert finding.text == "x: 20 cycles, not pinned"

    def test_which_unit_moved_and_by_how_much(self) -> None:
        units = {"pe_array": {"streaming": 7, "loading": 1, "idle": 15}, "dma0": {"idle": 20}}
        finding = compare("x", PIN, {**PIN, "cycles": 23, "units": units})
        assert not finding.ok
        assert finding.text == (
            "x: 20 -> 23 (+3) cycles\n  pe_array: streaming 5 -> 7 (+2), loading 0 -> 1 (+1)"
        )

    def test_same_length_but_another_unit(self) -> None:
        units = {"pe_array": PIN["units"]["pe_array"], "dma1": {"idle": 20}}
        assert compare("x", PIN, {**PIN, "units": units}).text == (
            "x: 20 -> 20 (+0) cycles\n  dma0: idle 20 -> 0 (-20)\n  dma1: idle 0 -> 20 (+20)"
        )

    def test_which_operation_moved(self) -> None:
        pinned = {**PIN, "operations": {"h": 7, "y": 9}}
        found = {**PIN, "operations": {"h": 7, "y": 8, "z": 1}}
        assert compare("x", pinned, pinned).ok
        assert compare("x", pinned, found).text == (
            "x: 20 -> 20 (+0) cycles\n  operations: y 9 -> 8 (-1), z 0 -> 1 (+1)"
        )
        assert compare("x", PIN, found).ok  # a file of counts without operations


class TestCommand:
    """`systolic check`, from pins written by `--update` to one that has moved."""

    def test_update_then_compare_then_move(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pins = tmp_path / "pins.toml"
        command = ["check", str(FIG3), "--pins", str(pins), "--runs", str(FIG3.parent)]
        assert call(command) == 1
        line = "transpose_fig3: 19 cycles, not pinned (--update --pins FILE pins them)"
        assert line in capsys.readouterr().out
        assert call([*command, "--update"]) == 0
        assert call(command) == 0
        capsys.readouterr()
        text = pins.read_text(encoding="utf-8")
        pins.write_text(text.replace("streaming = 4", "streaming = 3", 1), encoding="utf-8")
        assert call(command) == 1
        assert "  pe_array: streaming 3 -> 4 (+1)\n" in capsys.readouterr().out

    def test_update_keeps_reasons_and_other_pins(self, tmp_path: Path) -> None:
        pins = tmp_path / "pins.toml"
        list(check([FIG3], pins, update=True, runs=FIG3.parent))
        text = pins.read_text(encoding="utf-8")
        reason = tomllib.loads(text)["transpose_fig3"]["reason"]
        text = text.replace(reason, "mine").replace("cycles = 19", "cycles = 1")
        pins.write_text(text.replace("transpose_fig3", "another") + text, encoding="utf-8")
        list(check([FIG3], pins, update=True, runs=FIG3.parent))
        found = read_pins(pins)
        assert (found["transpose_fig3"]["cycles"], found["transpose_fig3"]["reason"]) == (
            19,
            "mine",
        )
        assert found["another"]["cycles"] == 1

    def test_a_pin_without_its_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pins = tmp_path / "pins.toml"
        list(check([FIG3], pins, update=True, runs=FIG3.parent))
        pins.write_text(
            pins.read_text(encoding="utf-8").replace("transpose_fig3", "gone"), encoding="utf-8"
        )
        monkeypatch.setattr("systolic.run.pins.shipped_runs", lambda: [FIG3])
        findings = {finding.text: finding.ok for finding in check(None, pins)}
        assert findings["gone: is pinned, but no shipped run has that name"] is False

    def test_update_of_all_forgets_what_is_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pins = tmp_path / "pins.toml"
        list(check([FIG3], pins, update=True, runs=FIG3.parent))
        pins.write_text(
            pins.read_text(encoding="utf-8").replace("transpose_fig3", "gone"), encoding="utf-8"
        )
        monkeypatch.setattr("systolic.run.pins.shipped_runs", lambda: [FIG3])
        list(check(None, pins, update=True))
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
        monkeypatch.setattr("systolic.run.pins.CONFIGS", tmp_path)
        monkeypatch.setattr("systolic.run.pins.PINS", tmp_path / "pinned_cycles.toml")
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
            list(check([FIG3], pins))

    def test_nothing_shipped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("systolic.run.pins.CONFIGS", tmp_path)
        with pytest.raises(ConfigError, match=r"no run files; name the ones to check$"):
            list(check())
