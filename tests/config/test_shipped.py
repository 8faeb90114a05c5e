"""Does every shipped file load, print back, and satisfy the schema that editors use?"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from systolic.config import expand, load_chip, load_run, schema, to_toml
from systolic.errors import ConfigError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CHIPS = sorted((CONFIGS / "chips").glob("*.toml"))
RUNS = sorted((CONFIGS / "runs").glob("*.toml"))


def ids(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def tables(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def test_there_are_some() -> None:
    assert len(CHIPS) >= 4
    assert len(RUNS) >= 10


@pytest.mark.parametrize("path", CHIPS, ids=ids(CHIPS))
def test_chip_round_trip(path: Path, tmp_path: Path) -> None:
    chip = load_chip(path)
    (tmp_path / "again.toml").write_text(to_toml(chip), encoding="utf-8")
    assert load_chip(tmp_path / "again.toml") == chip


def test_round_trip_of_awkward_text(tmp_path: Path) -> None:
    chip = load_chip(CHIPS[0])
    clocks = {"a b.c": 7, 'quo"te\\': 1, "\x7f\n": 2, "ü": 3, "": 4, "²": 5}
    odd = chip.model_copy(
        update={"description": '"\\\x7f\t\nü\U0001f600', "clock": clocks | chip.clock}
    )
    (tmp_path / "odd.toml").write_text(to_toml(odd), encoding="utf-8")
    again = load_chip(tmp_path / "odd.toml")
    assert again == odd
    assert list(again.clock) == list(odd.clock)  # the first clock is the default one


@pytest.mark.parametrize("path", RUNS, ids=ids(RUNS))
def test_run_loads(path: Path) -> None:
    run = load_run(path)
    assert run.name == path.stem
    assert run.description
    assert all(point.config.sweep == () for point in expand(run))


@pytest.mark.parametrize("path", CHIPS, ids=ids(CHIPS))
def test_chip_satisfies_the_schema(path: Path) -> None:
    jsonschema.Draft202012Validator(schema("chip")).validate(tables(path))


@pytest.mark.parametrize("path", RUNS, ids=ids(RUNS))
def test_run_satisfies_the_schema(path: Path) -> None:
    jsonschema.Draft202012Validator(schema("run")).validate(tables(path))


@pytest.mark.parametrize("kind", ["chip", "run"])
def test_schema_refuses_what_loading_refuses(kind: str) -> None:
    checker = jsonschema.Draft202012Validator
    checker.check_schema(schema(kind))
    good = tables(CHIPS[0] if kind == "chip" else RUNS[0])
    assert checker(schema(kind)).is_valid(good)
    assert not checker(schema(kind)).is_valid({**good, "nmae": "x"})
    assert not checker(schema(kind)).is_valid({**good, "name": 1})


def test_unknown_schema() -> None:
    with pytest.raises(
        ConfigError, match=r'^no schema "chpi" \(known: chip, run\); perhaps "chip"'
    ):
        schema("chpi")


def test_every_run_key_is_described() -> None:
    for kind in ("chip", "run"):
        found = schema(kind)
        for table in (*found["$defs"].values(), *found.get("anyOf", [found])):
            # A shape may be text or a table: the table has the keys.
            (keys,) = [t["properties"] for t in table.get("anyOf", [table]) if "properties" in t]
            assert all("description" in key for key in keys.values())
