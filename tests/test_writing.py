"""Is a file written whole or not at all?"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest

from systolic.errors import SystolicError
from systolic.writing import PREFIX, csv_row, replacing, write_text


@pytest.mark.parametrize(
    ("fault", "seen"), [(OSError("no room"), SystolicError), (ValueError("no format"), ValueError)]
)
def test_a_file_that_fails_leaves_the_old_one(
    tmp_path: Path, fault: Exception, seen: type[Exception]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half of the ne")
            raise fault

    with pytest.raises(seen, match=str(fault)):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
import csv
import io
import subprocess
import sys
from pathlib import Path
from systolic.writing import PREFIX, csv_row, replacing, write_text
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(PREFIX)
    own = tmp_path / ".systolic-notes.md"
    own.write_text("the user's")
    write_text(path, "whole")
    assert sorted(tmp_path.iterdir()) == [own, path]


def test_what_another_run_is_writing_stays(tmp_path: Path) -> None:
    """A second process clears the folder while this one writes there."""
    with replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("a")
        code = (
            "import sys; from pathlib import Path; from systolic.writing import write_text as w\n"
        )
        code += "w(Path(sys.argv[1]), 'b')"
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "b.txt")], check=True)
        assert temporary.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2", "@x", "\t=1", "\r=1"])
def test_no_text_is_a_formula_in_a_table(text: str) -> None:
    (row,) = csv.reader(io.StringIO(csv_row([text, -1, "a=b", 2.5]), newline=""))
    assert row == [f"'{text}", "-1", "a=b", "2.5"]
