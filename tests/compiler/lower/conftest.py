"""What tests of the lowering share."""

from __future__ import annotations

import pytest

from systolic.compiler.lower import digit_moves


@pytest.fixture
def rows_end_with_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no row end within a dimension: of many moves that leaves nothing for other ways to do."""
    monkeypatch.setattr(digit_moves, "places_beside", lambda *_: ([], []))
