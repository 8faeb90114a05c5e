"""Is every odd file refused in one line that names it, without hanging?

Odd files are missing, endless, or of another kind. Each command that reads a file is given each of
them. Memory and time are limited to those of a small process.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from support.command_line import refused, run_command

ROOT = Path(__file__).resolve().parents[2]
FIG3 = ROOT / "configs" / "runs" / "transpose_fig3.toml"
PROGRAM = """\
systolic program 1
program "p"
chip "ideal_4x4"
input a (4, 4) = state_buffer[0:4]+0 f32 (1x4)
output y (4, 4) = state_buffer[0:4]+128 f32 (1x4)

copy activation source=state_buffer[0:4]+0 f32 (1x4) target=state_buffer[0:4]+128 f32 (1x4)
"""
DATA = ("run", FIG3, "--set", 'workload.data="{}"')
# What reads a file, with {} for its name, and the end of the names such a file has.
READERS = {
    "run": (("run", "{}"), ".toml"),
    "check": (("check", "{}"), ".toml"),
    "at": (("at", "{}", "--cycle", "3"), ".toml"),
    "watch": (("watch", "{}", "--word", "state_buffer:0:0"), ".toml"),
    "compile": (("compile", "{}"), ".toml"),
    "trace": (("trace", "{}"), ".toml"),
    "chip": (("run", FIG3, "--chip", "./{}"), ".toml"),
    "chip of a program": (("run", "good.txt", "--chip", "./{}"), ".toml"),
    "pins": (("check", FIG3, "--pins", "{}"), ".toml"),
    "program": (("run", "{}"), ".txt"),
    "program to trace": (("trace", "{}"), ".txt"),
    "lint": (("lint", "{}"), ".txt"),
    "assemble": (("assemble", "{}", "out.bin"), ".txt"),
    "disassemble": (("disassemble", "{}"), ".bin"),
    "npy": (("run", FIG3, "--set", 'workload.data="{}"'), ".npy"),
    "csv": (("run", FIG3, "--set", 'workload.data="{}"'), ".csv"),
    "input": (("run", "good.txt", "--input", "a={}"), ".npy"),
    "chip of a layout": (
        ("layout", "f32[4,4]", "--buffer", "state_buffer", "--chip", "./{}"), ".toml"
    ),
}  # fmt: skip
READER = pytest.mark.parametrize(("command", "ending"), READERS.values(), ids=READERS)


@pytest.fixture(autouse=True)
def _folder_and_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Go to an empty folder, and end a command that hangs."""

    def hangs(*_: int | FrameType | None) -> None:
        raise AssertionError("hangs")

    monkeypatch.chdir(tmp_path)
    Path("good.txt").write_text(PROGRAM, encoding="utf-8")
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(200)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def with_name(command: tuple[object, ...], name: str) -> list[str]:
    return [str(word).replace("{}", name) for word in command]


@READER
def test_a_pipe(command: tuple[object, ...], ending: str) -> None:
    os.mkfifo(f"odd{ending}")
    assert f"odd{ending}: is a pipe (FIFO), not a file" in refused(
        *with_name(command, f"odd{ending}")
    )


@READER
def test_a_device(command: tuple[object, ...], ending: str) -> None:
    Path(f"odd{ending}").symlink_to("/dev/zero")
    assert f"odd{ending}: is a device, not a file" in refused(*with_name(command, f"odd{ending}"))


@READER
def test_a_folder(command: tuple[object, ...], ending: str) -> None:
    Path(f"odd{ending}").mkdir()
    assert f"odd{ending}: is a directory, not a file" in refused(
        *with_name(command, f"odd{ending}")
    )


@READER
def test_a_socket(command: tuple[object, ...], ending: str) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(f"odd{ending}")
        found = refused(*with_name(command, f"odd{ending}"))
    assert f"odd{ending}: is a socket, not a file" in found


@READER
def test_none(command: tuple[object, ...], ending: str) -> None:
    assert f"odd{ending}: no such file" in refused(*with_name(command, f"odd{ending}"))


@READER
def test_a_name_of_100_000_letters(command: tuple[object, ...], ending: str) -> None:
    found = refused(*with_name(command, "n" * 100_000 + ending))
    assert len(found) < 1000
    assert "too long" in found


@READER
def test_bytes_of_no_kind(command: tuple[object, ...], ending: str) -> None:
    for content in (
        b"",
        b"\0" * 5000,
        b"\xff" * 5000,
        b"x" * 200_000,
        b"[" * 50_000,
        b"a\n" * 9999,
    ):
        Path(f"odd{ending}").write_bytes(content)
        if content or ending == ".csv" or "--pins" not in command:
            assert len(refused(*with_name(command, f"odd{ending}"))) < 1000


def test_a_file_without_end_costs_little_memory() -> None:
    """A sparse file of 8 GiB is refused by a process of 3 GiB."""
    for name in ("odd.toml", "odd.txt", "odd.npy", "odd.csv"):
        with Path(name).open("wb") as file:
            file.truncate(8 << 30)
    header = b"\x93NUMPY\x02\x00" + (0xFFFFFFF0).to_bytes(4, "little")
    with Path("odd.npy").open("r+b") as file:
        file.write(header)
    limit = 3 << 30
    for kind in ("pins", "lint", "npy", "csv"):
        command, ending = READERS[kind]
        process = subprocess.run(
            [sys.executable, "-m", "systolic", *with_name(command, f"odd{ending}")],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        assert process.returncode == 2, process
        assert "too little memory" not in process.stderr
        assert f"odd{ending}" in process.stderr
        assert process.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [("compile",)],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("form", ["text", "binary"])
def test_a_program_where_a_run_file_is_needed(command: tuple[str, ...], form: str) -> None:
    name = "good.txt"
    if form == "binary":
        assert run_command("assemble", name, "good.bin")[0] == 0
        name = "good.bin"
    found = refused(command[0], name, *command[1:])
    assert found.startswith(f"{name}: is a program, and a run file is needed here (systolic run, ")
    assert "TOML" not in found


def test_a_program_where_a_chip_is_needed() -> None:
    assert "is a program, and a chip file is needed here" in refused(
        "run", FIG3, "--chip", "./good.txt"
    )


MARK = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_skipped() -> None:
    runs, chips = FIG3.parent, FIG3.parents[1] / "chips"
    Path("r.toml").write_bytes(MARK + (runs / "transpose_fig3.toml").read_bytes())
    Path("c.toml").write_bytes(MARK + (chips / "ideal_4x4.toml").read_bytes())
    Path("p.txt").write_bytes(MARK + PROGRAM.encode())
    Path("d.csv").write_bytes(MARK + b"1,2,3,4\n" * 4)
    np.save("a.npy", np.ones((4, 4), np.float32))
    assert run_command("run", "r.toml", "--chip", "c.toml", "--no-plots")[0] == 0
    assert run_command("run", "r.toml", "--set", "workload.data=d.csv", "--no-plots")[0] == 0
    for command in (("lint",), ("run", "--input", "a=a.npy", "--no-plots"), ("trace",)):
        inputs = ("--input", "a=a.npy") if command[0] == "trace" else ()
        assert run_command(command[0], "p.txt", *command[1:], *inputs)[0] == 0, command
    assert run_command("assemble", "p.txt", "p.bin")[0] == 0
    assert run_command("check", "r.toml", "--pins", "pins.toml", "--update")[0] == 0
    Path("pins.toml").write_bytes(MARK + Path("pins.toml").read_bytes())
    assert run_command("check", "r.toml", "--pins", "pins.toml")[0] == 0


def test_a_link_to_itself_is_no_file() -> None:
    for command, ending in READERS.values():
        Path(f"round{ending}").unlink(missing_ok=True)
        Path(f"round{ending}").symlink_to(f"round{ending}")
        found = refused(*with_name(command, f"round{ending}"))
        assert f"round{ending}: cannot be read (" in found or "--pins" in command, found


def test_a_key_of_50_000_parts_costs_little_memory() -> None:
    """The parser would keep all beginnings of the key: 10 GB of them."""
    long = ".".join(["a"] * 50_000)
    for text in (f"{long} = 1\n", f"[{long}]\n", f"x = {{ {long} = 1 }}\n", f'"b".{long} = 1\n'):
        Path("odd.toml").write_text(text, encoding="utf-8")
        for kind in ("run", "chip", "pins"):
            found = refused(*with_name(READERS[kind][0], "odd.toml"))
            assert "a key of more than 64 parts (at line 1)" in found, (kind, found)


def test_long_texts_that_are_no_keys_are_read() -> None:
    dots = ".".join(["a"] * 500)
    text = f'description = "{dots}"\n# {dots}\nchip = "ideal_4x4"\n[workload]\nop = "relu"\n'
    Path("odd.toml").write_text(f'{text}shape = "f32[4,4]"\n', encoding="utf-8")
    assert run_command("compile", "odd.toml")[0] == 0
