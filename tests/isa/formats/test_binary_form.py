"""Do bytes carry every program unchanged, and is all damage refused with one clear line?"""

from __future__ import annotations

import base64
import contextlib
import struct
import zlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.blocks import block_program
from support.modules import modules
from support.random_programs import RandomProgram, random_chip
from systolic.errors import ProgramError
from systolic.isa import Access, Buffer, DmaCopy, Pool, Program
from systolic.isa.formats.binary import decode, encode, is_binary
from systolic.isa.formats.module import Module

BLOCK = encode(block_program(2, 2))
HEADER = 16


def sealed(body: bytes) -> bytes:
    """Return a file with a good header and checksum around any body."""
    data = struct.pack("<4sHHQ", b"SYSB", 1, 0, len(body)) + body
    return data + struct.pack("<I", zlib.crc32(data))


def there_and_back(module: Module) -> None:
    data = encode(module)
    assert is_binary(data)
    assert decode(data) == module
    assert encode(decode(data)) == data


@given(modules)
@settings(max_examples=50, deadline=None)
def test_round_trip(module: Module) -> None:
    there_and_back(module)


@pytest.mark.slow
@given(modules)
@settings(max_examples=500, deadline=None)
def test_round_trip_of_many(module: Module) -> None:
    there_and_back(module)


@pytest.mark.parametrize("seed", range(10))
def test_round_trip_of_random_programs(seed: int) -> None:
    rng = Random(seed)
    chip = random_chip(rng, engines=seed % 2 == 1)
    program, _ = RandomProgram(rng, chip, elementwise=seed % 2 == 0, later=True).build(40)
    assert decode(encode(program)).program == program


def test_a_file_from_before_chips_listed_engines_is_read() -> None:
    """Written when the engine of Activate and Pool was a fixed word; the bytes are the same."""
    old = zlib.decompress(base64.b64decode(
        "eJwLjgx2YmRgYDgKIoCAHYiZgTg/JwXE5QLixOSSzLLEksz8PBYgrygxtwCkIM3YCKS2ID8/JzMvHSSSm1gB0gI1CA5AUm"
        "xMUAYDC5IME5pKRiTdcHXYNDjg0QDlf7BHdwcDOyvIJcj2UsUxDVg0oBvGzEo16w7g0wAF71f/3AIAUGEUwQ=="
    ))  # fmt: skip
    program = decode(old).program
    assert [i.engine for i in program.instructions] == ["activation", "pooling", "pooling"]
    assert encode(program) == old
    source = Access(Buffer.STATE, "f32", 0, 2, 0, ((1, 4),))
    small = Access(Buffer.STATE, "f32", 0, 2, 128, ((1, 2),))
    assert program.instructions[1] == Pool(function="max", window=2, source=source, target=small)


def test_the_bytes_stay_what_they_are() -> None:
    """The format is stable: a file written today is read for ever. This never changes."""
    program = Program(
        "p",
        (
            DmaCopy(
                dma_queue=1,
                source=Access(Buffer.DRAM, "s8", 0, 1, 7, ((-1, 3),)),
                target=Access(Buffer.STATE, "s8", 2, 3, 4, ()),
            ),
        ),
    )
    words = (
        "53595342 0100 0000 8e00000000000000 "  # magic, version, flags, length
        "03000000 01000000 70 00000000 02000000 7338 "  # strings: p, "", s8
        "00000000 01000000 00000000 00000000 00000000 "  # name, chip, semaphores, inputs, outputs
        "01000000 05 0100000000000000 "  # one instruction: dma, queue
        "02 02000000 0000000000000000 0100000000000000 0700000000000000 "  # source
        "01000000 ffffffffffffffff 0300000000000000 "
        "00 02000000 0200000000000000 0300000000000000 0400000000000000 00000000 "  # target
        "00000000 00000000"  # waits, posts
    )
    data = bytes.fromhex(words.replace(" ", ""))
    assert encode(program) == data + struct.pack("<I", zlib.crc32(data))


def test_every_flipped_bit_is_noticed() -> None:
    for place in range(len(BLOCK) * 8):
        damaged = bytearray(BLOCK)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(ProgramError):
            decode(bytes(damaged))


def test_every_cut_is_noticed() -> None:
    for size in range(len(BLOCK)):
        with pytest.raises(ProgramError):
            decode(BLOCK[:size])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a binary program: needed \"SYSB\", found b''"),
        (b"ELF!" + BLOCK[4:], "not a binary program: needed \"SYSB\", found b'ELF!'"),
        (BLOCK[:12], "cut off: 12 bytes are too few for a header"),
        (BLOCK[: HEADER + 3], f"cut off: {HEADER + 3} bytes are too few for a header"),
        (BLOCK[: HEADER + 4], f"cut off: needed {len(BLOCK)} bytes, found {HEADER + 4}"),
        (BLOCK[:-1], f"cut off: needed {len(BLOCK)} bytes, found {len(BLOCK) - 1}"),
        (BLOCK + b"x", f"too long: needed {len(BLOCK)} bytes, found {len(BLOCK) + 1}"),
        (BLOCK[:4] + b"\x03" + BLOCK[5:], "this simulator reads versions 1 and 2 of the binary "
         "form without flags, found version 3, flags 0"),
        (sealed(b"\xff\xff\xff\xff"), "damaged at byte 4 of its body: 4294967295 items of 4 bytes "
         "or more, but 0 bytes are left"),
        (sealed(b"\x01\0\0\0\x01\0\0\0\xff"), "damaged at byte 9 of its body: a string is not "
         "UTF-8"),
        (sealed(b"\x01\0\0\0\xff\xff\xff\xff"), "damaged at byte 8 of its body: needed 9 more "
         "bytes, found 0"),
        (sealed(b"\0\0\0\0\0\0\0\0"), "damaged at byte 8 of its body: string 0 does not exist "
         "(there are 0)"),
        (sealed(BLOCK[HEADER:-4] + b"x"), f"damaged at byte {len(BLOCK) - HEADER - 4} of its body: "
         "bytes left over: 1"),
    ],
)  # fmt: skip
def test_damage(data: bytes, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        decode(data, "p.bin")
    assert str(caught.value) == f"p.bin: {message}"


def test_a_wrong_checksum() -> None:
    with pytest.raises(ProgramError, match=r"damaged: its checksum is 0+, its bytes give \w{8}$"):
        decode(BLOCK[:-4] + bytes(4))


def test_what_cannot_be_encoded() -> None:
    access = Access(Buffer.DRAM, "f32", 0, 1, 1 << 63, ())
    program = Program("p", (DmaCopy(dma_queue=0, source=access, target=access),))
    with pytest.raises(ProgramError, match="an integer does not fit 64 bits"):
        encode(program)
    with pytest.raises(ProgramError, match=r"'\\ud800' is not valid text"):
        encode(Program("\ud800", ()))


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for candidate in (data, sealed(data)):
        with contextlib.suppress(ProgramError):
            decode(candidate)


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_hostile_bodies_are_read_or_refused(data: st.DataObject) -> None:
    """Damage under a good checksum: counts, strings, operations, events."""
    body = bytearray(BLOCK[HEADER:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]) | st.integers(0, 255))
    try:
        module = decode(sealed(bytes(body)))
    except ProgramError:
        return
    assert decode(encode(module)) == module
