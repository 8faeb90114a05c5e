"""Do lint, assemble and disassemble do what they say, with the right status and one-line errors?"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from support.blocks import block_program, state
from systolic.cli.assemble import assemble_command, disassemble_command
from systolic.cli.lint import lint_command
from systolic.errors import ConfigError, ProgramError
from systolic.isa.formats.binary import encode
from systolic.isa.formats.files import load_module
from systolic.isa.formats.module import Binding, Module
from systolic.isa.formats.write_text import format_text

app = Typer()
for name, command in (
    ("lint", lint_command),
    ("assemble", assemble_command),
    ("disassemble", disassemble_command),
):
    app.command(name)(command)


def block(chip: str = "ideal_128x128") -> Module:
    inputs = (
        Binding.whole("A", (4, 4), state(0, 4, 0, 4)),
        Binding.whole("identity", (4, 4), state(0, 4, 8192, 4)),
    )
    return Module(block_program(4, 4), inputs, (), chip)


def call(*arguments: object) -> tuple[int, str]:
    """Return status and output; an error is raised, because the command line prints it."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "block.txt"
    path.write_text(format_text(block()), encoding="utf-8")
    return path


def test_there_and_back(text_file: Path, tmp_path: Path) -> None:
    binary, again = tmp_path / "block.bin", tmp_path / "again.txt"
    assert call("assemble", text_file, binary) == (0, "")
    assert binary.read_bytes() == encode(block())
    assert call("disassemble", binary) == (0, text_file.read_text(encoding="utf-8"))
    assert call("disassemble", binary, again) == (0, "")
    assert again.read_bytes() == text_file.read_bytes()
    assert load_module(binary) == load_module(text_file) == block()


def test_a_clean_program(text_file: Path) -> None:
    assert call("lint", text_file) == (0, "block: 3 instructions, no findings\n")
    assert call("lint", text_file, "--chip", "patent_128x64")[0] == 0


def test_findings(text_file: Path, tmp_path: Path) -> None:
    racy = format_text(block()).replace("wait s0>=1", "")
    text_file.write_text(racy, encoding="utf-8")
    status, out = call("lint", text_file)
    assert status == 1
    assert out.splitlines() == [
        f"{text_file}:10: error read-after-write: instruction 2 (Copy, line 10) reads "
        "result_buffer[0:4] bytes 0:16, and nothing makes instruction 1 (MatMul, line 9) write it "
        "before",
        f"{text_file}:9: hint unused-post: instruction 1 (MatMul, line 9) posts semaphore s0 "
        '"result", and nothing waits for it',
        "block: 3 instructions, 1 error, 1 hint",
    ]


def test_hints_are_no_failure(text_file: Path) -> None:
    text = format_text(block()).replace("(1x4)\nmatmul", "(1x4)  post s1\nmatmul")
    text_file.write_text(
        text.replace('s0 "result"', 's0 "result"\nsemaphore s1 "x"'), encoding="utf-8"
    )
    status, out = call("lint", text_file)
    assert status == 0
    assert out.endswith("block: 3 instructions, 1 hint\n")


def test_without_inputs_nothing_is_written(text_file: Path) -> None:
    text_file.write_text(format_text(Module(block_program(4, 4), chip="ideal_128x128")), "utf-8")
    status, out = call("lint", text_file)
    assert (status, out.count("unwritten")) == (1, 2)


def test_unusable_input(text_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"nothing\.txt: no such file$"):
        call("lint", tmp_path / "nothing.txt")
    with pytest.raises(ProgramError, match=r"is a directory, not a file$"):
        call("lint", tmp_path)
    with pytest.raises(
        ConfigError, match=r'--chip: chip: no chip "idael_128x128".*"ideal_128x128"'
    ):
        call("lint", text_file, "--chip", "idael_128x128")
    text_file.write_text(format_text(block(chip="")), encoding="utf-8")
    with pytest.raises(ProgramError, match=r"block\.txt: names no chip; needed one$"):
        call("lint", text_file)
    text_file.write_bytes(b"systolic \xff")
    with pytest.raises(ProgramError, match=r"neither a binary program nor UTF-8 text \(byte 9\)"):
        call("lint", text_file)


def test_the_wrong_form(text_file: Path, tmp_path: Path) -> None:
    binary = tmp_path / "block.bin"
    with pytest.raises(ProgramError, match=r"txt: not a binary program: needed \"SYSB\""):
        call("disassemble", text_file)
    call("assemble", text_file, binary)
    with pytest.raises(ProgramError, match="is a binary program already; needed text"):
        call("assemble", binary, tmp_path / "other")


def test_nothing_is_half_written(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("systolic program 1\nlaod", encoding="utf-8")
    with pytest.raises(ProgramError, match=r'bad\.txt:2:1: .*perhaps "load" was meant'):
        call("assemble", bad, tmp_path / "bad.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]
