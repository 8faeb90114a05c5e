"""Does text carry every program unchanged, and does every mistake in it get one clear line?"""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.blocks import block_program, state
from support.modules import modules
from support.random_programs import RandomProgram, random_chip
from systolic.errors import ProgramError
from systolic.isa.formats.module import Binding, Module, Part
from systolic.isa.formats.write_text import format_text, parse_text
from systolic.isa.opcodes import BY_MNEMONIC

HEAD = "systolic program 1\n"
INSTRUCTIONS = ", ".join(BY_MNEMONIC)
LOAD = "load weights=state_buffer[0:4]+0 f32 (1x4)"
EXAMPLE = """\
systolic program 1
program "block"
chip "ideal_4x4"
semaphore s0 "result"
input A (4, 4) = state_buffer[0:4]+0 f32 (1x4)
output "A transposed" (4, 4)
  [0:2, 0:4] = state_buffer[0:2]+16384 f32 (1x4)
  [2:4, 0:4] = state_buffer[2:4]+16384 f32 (1x4)

load weights=state_buffer[0:4]+0 f32 (1x4)
matmul moving=state_buffer[0:4]+8192 f32 (1x4) result=result_buffer[0:4]+0 f32 (1x4)  post s0
copy activation source=result_buffer[0:4]+0 f32 (1x4) \
target=state_buffer[0:4]+16384 f32 (1x4)  wait s0>=1
"""


def example() -> Module:
    parts = tuple(Part(((r, r + 2), (0, 4)), state(r, 2, 16384, 4)) for r in (0, 2))
    return Module(
        block_program(4, 4),
        (Binding.whole("A", (4, 4), state(0, 4, 0, 4)),),
        (Binding("A transposed", (4, 4), parts),),
        "ideal_4x4",
    )


def test_what_it_looks_like() -> None:
    assert format_text(example()) == EXAMPLE
    assert parse_text(EXAMPLE) == example()


def there_and_back(module: Module) -> None:
    text = format_text(module)
    assert parse_text(text) == module
    assert format_text(parse_text(text)) == text


@given(modules)
@settings(max_examples=50, deadline=None)
def test_round_trip(module: Module) -> None:
    there_and_back(module)


@pytest.mark.slow
@given(modules)
@settings(max_examples=500, deadline=None)
def test_round_trip_of_many(module: Module) -> None:
    there_and_back(module)


@pytest.mark.parametrize("seed", range(20))
def test_round_trip_of_random_programs(seed: int) -> None:
    rng = Random(seed)
    chip = random_chip(rng, engines=seed % 2 == 1)
    program, _ = RandomProgram(rng, chip, elementwise=seed % 2 == 0, later=True).build(40)
    assert parse_text(format_text(program)).program == program


def test_bare_programs_have_no_bindings() -> None:
    assert parse_text(format_text(block_program(2, 2))) == Module(block_program(2, 2))


def test_blanks_and_comments_do_not_matter() -> None:
    lines = [f"  {line.replace('=', ' = ')}\t# so # it is" for line in EXAMPLE.splitlines()]
    text = "\n# a comment\n" + "\r\n\r\n".join(lines)
    assert parse_text(text.replace("> =", ">=")) == example()


def test_a_hash_in_quotes_is_no_comment() -> None:
    text = HEAD + 'program "a # b"\n'
    assert parse_text(text).program.name == "a # b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '1:1: needed "systolic program 1", found the end of the line'),
        ("hello\n", '1:1: needed "systolic program 1" in the first line, found "hello"'),
        ("systolic program 3", "1:19: this simulator reads versions 1 and 2 of the text form only"),
        (HEAD + "laod x", f'2:1: needed an instruction, found "laod" (known: {INSTRUCTIONS}, '
         'program, chip, semaphore, input, output); perhaps "load" was meant'),
        (HEAD + "load", "2:5: load needs weights=..."),
        (HEAD + "load weight=1", '2:6: needed a field of load, wait or post, found "weight" '
         '(known: weights); perhaps "weights" was meant'),
        (HEAD + "load weights", '2:13: needed "=" and the value of weights, found the end of '
         "the line"),
        (HEAD + "load weights=state_bufer[0:4]", '2:14: needed a buffer, found "state_bufer" '
         '(known: state_buffer, result_buffer, dram); perhaps "state_buffer" was meant'),
        (HEAD + "load weights=dram[0;4]", '2:20: needed ":", found ";"'),
        (HEAD + LOAD[:-1], '2:42: needed a pair such as "1x64" (step x count), or ")", '
         "found the end of the line"),
        (HEAD + LOAD + " wait s0>1", '2:51: needed ">=", found ">"'),
        (HEAD + LOAD + " wait 0>=1", '2:49: needed a semaphore such as "s0", found "0"'),
        (HEAD + LOAD + " post s0:rows", '2:52: needed an event, found "rows" '
         '(known: done, row, partition); perhaps "row" was meant'),
        (HEAD + LOAD + " post s0 wait s0>=1", '2:52: needed the end of the line, found "wait"'),
        (HEAD + LOAD + " weights=dram[0:1]+0 f32 ()", '2:44: load: "weights" is given twice'),
        (HEAD + LOAD + '\nchip "x"', '3:1: "chip" must stand before the first instruction'),
        (HEAD + "memset value=1", '2:8: needed the instruction\'s engine, found "value"'),
        (HEAD + "dma 0", '2:5: needed "q" and a number, found "0"'),
        (HEAD + "memset pooling value=x", '2:22: needed a number for value, found "x"'),
        (HEAD + "dma q" + "9" * 99,
         f'2:6: needed a whole number for dma_queue, found "{"9" * 60}"'),
        (HEAD + 'semaphore s1 "x"', '2:11: needed semaphore "s0" (they are numbered in order), '
         'found "s1"'),
        (HEAD + "program block", "2:9: needed the program's name in double quotes, "
         'found "block"'),
        (HEAD + 'program "block', "2:9: needed the program's name in double quotes, "
         'found ""block"'),
        (HEAD + "input A (4) = dram[0:1]+0 f32 (1x5)",
         ' input "A": [0:4] has 4 elements, dram[0:1]+0 f32 (1x5) has 5'),
        (HEAD + "input A (4)\n [0:2, 0:1] = dram[0:1]+0 f32 (1x2)",
         ' input "A": [0:2, 0:1] has 2 axes, its shape 1'),
        (HEAD + "input A (4)\n [3:5] = dram[0:1]+0 f32 (1x2)",
         ' input "A": [3:5] does not lie in the shape (4,)'),
        (HEAD + "input A (0)\ninput A (0)", ' input "A" is bound twice'),
        (HEAD + " [0:2] = dram[0:1]+0 f32 (1x2)",
         f'2:2: needed an instruction, found "[" (known: {INSTRUCTIONS}, program, chip, semaphore, '
         "input, output)"),
    ],
)  # fmt: skip
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(text, "p.txt")
    assert str(caught.value) == f"p.txt:{message}"


@given(st.text(alphabet=EXAMPLE + '\x00\u2028é"\\', max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    for candidate in (text, HEAD + text):
        with contextlib.suppress(ProgramError):
            parse_text(candidate)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_text_is_read_or_refused(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(EXAMPLE)))
    length = data.draw(st.integers(0, 8))
    damaged = EXAMPLE[:place] + data.draw(st.text(max_size=4)) + EXAMPLE[place + length :]
    try:
        module = parse_text(damaged)
    except ProgramError:
        return
    assert parse_text(format_text(module)) == module
