"""`systolic validate`: the shipped table, a user's own, exit status, and what is refused."""

from __future__ import annotations

import json

import pytest

from support.command_line import refused, run_command
from support.validation_rows import csv_text
from systolic.run.validation.table import read_table, table_file
from systolic.run.validation.validate import validate

LEAST_ROWS, MOST_OUTSIDE = 30, 3


LARGE = {"v3-product-f32", "v3-product-f32-time"}
"""Rows of a product of 275 billion multiply-adds: in the slow tier."""


@pytest.fixture(scope="module")
def shipped() -> list[dict[str, object]]:
    rows = [row for row in read_table(table_file("neuroncore")) if row.id not in LARGE]
    return [each.to_dict() for each in validate(rows)]


@pytest.mark.slow
def test_the_command_knows_every_row_that_is_outside():
    status, out, err = run_command("validate", "--json")
    found = {row["id"]: row for row in json.loads(out)}
    assert (status, err) == (0, "")
    assert {row.id for row in read_table(table_file("neuroncore"))} == set(found)
    assert not [name for name, row in found.items() if row["ok"] and row["missing"]]
    assert found["v3-product-f32-time"]["published"] == 28.30


def test_the_published_figures_of_the_neuroncore_come_out(shipped):
    outside = [row["id"] for row in shipped if not row["ok"]]
    unexplained = [row["id"] for row in shipped if not row["ok"] and not row["missing"]]
    assert len(shipped) >= LEAST_ROWS
    assert not unexplained
    assert len(outside) <= MOST_OUTSIDE, outside


def test_a_rule_that_is_said_to_be_missing_is_missing(shipped):
    assert not [row["id"] for row in shipped if row["ok"] and row["missing"]]


def test_every_tolerance_has_a_reason():
    assert all(row.reason for row in read_table(table_file("neuroncore")))


def test_the_figures_of_a_row(tmp_path):
    """The product takes 13 cycles (`tests/run/validation/test_measures.py` counts them)."""
    file = tmp_path / "t.csv"
    file.write_text(csv_text({"published": "12", "tolerance": "1", "reason": "read off"}))
    status, out, err = run_command("validate", file, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == [
        {
            "id": "one", "what": "a product", "unit": "cycles", "published": 12.0, "ours": 13.0,
            "deviation": 1.0, "tolerance": 1.0, "ok": True, "source": "a page",
            "reason": "read off", "missing": "",
        }
    ]  # fmt: skip


def test_a_row_that_is_off_too_far(tmp_path):
    file = tmp_path / "t.csv"
    changes = {"id": "two", "published": "12.5", "tolerance": "0.4", "missing": "a cycle less"}
    file.write_text(csv_text({}, changes, {**changes, "id": "three", "missing": ""}))
    assert run_command("validate", file) == (
        1,
        "  id     published  ours  deviation  tolerance  unit    what\n"
        "  one           13    13          0          0  cycles  a product\n"
        "  two *       12.5    13       +0.5        0.4  cycles  a product\n"
        "  three       12.5    13       +0.5        0.4  cycles  a product\n"
        "\n"
        "1 of 3 rows within their tolerance\n"
        "* known: two, a product (a page): we lack: a cycle less\n"
        "outside: three, a product (a page): no reason is known\n",
        "",
    )


def test_a_row_that_is_known_to_be_off_is_no_failure(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(csv_text({"published": "12.5", "tolerance": "0.4", "missing": "a cycle less"}))
    status, out, err = run_command("validate", file)
    assert (status, err) == (0, "")
    assert out.splitlines()[-2:] == [
        "0 of 1 rows within their tolerance",
        "* known: one, a product (a page): we lack: a cycle less",
    ]


def test_what_is_refused(tmp_path):
    assert refused("validate", "nowhere.csv") == "nowhere.csv: no such file"
    assert refused("validate", "neuron") == (
        'no validation table "neuron" (known: collectives, neuroncore; a file ends in .csv); '
        "perhaps "
        '"neuroncore" was meant'
    )
    file = tmp_path / "t.csv"
    file.write_text(csv_text({"chip": "ideal_5x5"}))
    assert refused("validate", file).startswith(f'{file}:2: row one: chip: no chip "ideal_5x5"')
    file.write_bytes(b"id,what\n\xff\xfe\n")
    assert refused("validate", file) == f"{file}: is not UTF-8 text"
