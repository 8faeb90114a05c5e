"""Is a file written whole or not at all?"""

from __future__ import annotations

from pathlib import Path

import pytest

from systolic.errors import SystolicError
from systolic.writing import replacing


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
