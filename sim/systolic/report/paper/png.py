"""The bytes of a PNG file, made plainly and quickly. Not here: writing the file."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BITS, RGB = 8, 2
LEVEL = 1
"""The pictures are flat areas: higher levels take longer and save only a few percent."""


def png_bytes(pixels: npt.NDArray[np.uint8], dpi: int) -> bytes:
    """Return the contents of a PNG file of RGB pixels [height, width, 3]."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: 0, none
    lines[:, 1:] = pixels.reshape(height, 3 * width)
    per_metre = round(dpi / 0.0254)
    return SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, BITS, RGB, 0, 0, 0)),
            _chunk(b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1)),
            _chunk(b"IDAT", zlib.compress(lines.data, LEVEL)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
