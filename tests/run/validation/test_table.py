"""A validation table as a file: what is read of it, and what is refused, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.validation_rows import ROW, csv_text
from systolic.errors import ConfigError
from systolic.run.validation.table import read_table, table_file


def read(folder: Path, text: str):
    file = folder / "t.csv"
    file.write_text(text, encoding="utf-8")
    return read_table(file)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        read(folder, text)
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix(f"{folder / 't.csv'}")


def test_a_row_and_what_is_left_out(tmp_path):
    (row,) = read(tmp_path, csv_text({"set": "chip.a=1; chip.b=2"}))
    assert (row.id, row.published, row.tolerance, row.repeat) == ("one", 13, 0, 1)
    assert row.overrides == ("chip.a=1", "chip.b=2")
    assert (row.before, row.missing, row.folder) == ("", "", tmp_path)


@pytest.mark.parametrize(("text", "found"), [("0.5", 0.5), ("10 %", 1.3), ("10%", 1.3)])
def test_a_tolerance_is_a_number_or_a_share_of_what_is_published(text, found, tmp_path):
    (row,) = read(tmp_path, csv_text({"tolerance": text}))
    assert row.tolerance == pytest.approx(found)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"published": "many"}, ':2: row one: published: needs a number, found "many"'),
        ({"published": "nan"}, ':2: row one: published: needs a number, found "nan"'),
        ({"published": ""}, ":2: row one: published: needs a value"),
        ({"source": " "}, ":2: row one: source: needs a value"),
        ({"tolerance": "-1"}, ':2: row one: tolerance: needs 0 or more, found "-1"'),
        ({"tolerance": "x %"}, ':2: row one: tolerance: needs a number, found "x"'),
        ({"repeat": "0"}, ':2: row one: repeat: needs a whole number from 1 to 100000, found "0"'),
        (
            {"measure": "lenght"},
            ":2: row one: measure: needs one of length, each, array_rate, dma_rate, summary, chip, "
            'largest, legal, found "lenght"; perhaps "length" was meant',
        ),
        (
            {"measure": "array_rate", "unit": "ns"},
            ':2: row one: unit: array_rate is told in one of "TFLOPS", "GFLOPS", "%", found "ns"',
        ),
        (
            {"idd": "1"},
            ': no column is called "idd" (known: id, what, measure, unit, published, tolerance, '
            "source, chip, set, run, program, before, repeat, of, reason, missing); perhaps "
            '"id" was meant',
        ),
    ],
)
def test_what_a_row_cannot_be(cells, message, tmp_path):
    assert refusal(tmp_path, csv_text(cells)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,what\n1,2\n", ': the column "measure" is missing'),
        ("id,id\n1,2\n", ': the column "id" stands there twice'),
        (",".join(ROW) + "\n", ": has no rows"),
        (csv_text({}) + "too,few\n", ":3: has another number of cells than the first line"),
        (csv_text({}, {}), ': two rows have the id "one"'),
    ],
)
def test_what_a_table_cannot_be(text, message, tmp_path):
    assert refusal(tmp_path, text) == message


def test_a_name_is_that_of_a_shipped_table():
    assert table_file("neuroncore").is_file()
    assert table_file("./neuroncore") == Path("neuroncore")
    with pytest.raises(ConfigError) as error:
        table_file("neuroncor")
    assert str(error.value) == (
        'no validation table "neuroncor" (known: collectives, neuroncore; a file ends in .csv); '
        'perhaps "neuroncore" was meant'
    )
