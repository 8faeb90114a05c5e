"""Can any bytes make loading fail with anything but one clear line? They must not."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.config import expand, load_chip, load_run
from systolic.errors import SystolicError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CHIP = (CONFIGS / "chips" / "ideal_4x4.toml").read_bytes()
RUN = (CONFIGS / "runs" / "transpose_vs_dram.toml").read_bytes()
PIECES = st.sampled_from(
    [b"rows", b"=", b"1", b"-1", b"0", b"1e999", b"nan", b'"', b"'", b"[", b"]", b"[[", b"]]", b"{",
     b"}", b"\n", b",", b".", b"#", b"chip", b"workload", b"sweep", b"vary", b"clock", b"\xff",
     b"\x00", b"1979-05-27", b"true", b'"f32[4,4]"', b"99999999999999999999", b"\xc3\xa9"]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Draw a good file with a few stretches replaced, or nothing but pieces."""
    if draw(st.booleans()):
        return b" ".join(draw(st.lists(PIECES, max_size=30)))
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, len(good)))
        length = draw(st.integers(0, 12))
        middle = b"".join(draw(st.lists(PIECES, max_size=4)))
        good = good[:first] + middle + good[first + length :]
    return good


def one_line(load: Callable[[], object]) -> bool:
    """Return whether loading works or says in one line why not; other exceptions pass."""
    try:
        load()
    except SystolicError as error:
        return len(str(error)) > 5 and "\n" not in str(error)
    return True


@settings(max_examples=300, deadline=None)
@given(damaged(CHIP))
def test_chip_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chip.toml"
        path.write_bytes(content)
        assert one_line(lambda: load_chip(path))


@settings(max_examples=300, deadline=None)
@given(damaged(RUN))
def test_run_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        path.write_bytes(content)
        assert one_line(lambda: [point.config for point in islice(expand(load_run(path)), 1)])


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_override_text(key: str, value: str) -> None:
    override_or_refuse(key, value)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_much_override_text(key: str, value: str) -> None:
    override_or_refuse(key, value)


def override_or_refuse(key: str, value: str) -> None:
    """Load with overrides of any text, or get a SystolicError."""
    for text in (f"{key}={value}", f"workload.{key}={value}", f"workload.data={value}", key):
        with contextlib.suppress(SystolicError):
            load_run(CONFIGS / "runs" / "transpose_fig3.toml", [text])
