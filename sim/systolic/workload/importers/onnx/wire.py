"""How many fields a protobuf file holds, counted before any is made.

An empty message takes two bytes in a file and some hundred in memory, so that a small file may
fill a machine. Only lengths are looked at, and counting ends at the limit.
"""

from __future__ import annotations

from typing import Any

from systolic.workload.importers.errors import ImportFileError

MOST_FIELDS = 2_000_000
MOST_PACKED_BYTES = 1 << 28
"""Numbers that a file packs as varints take up to eight times their bytes in memory."""
MOST_NESTED = 60
_VARINT, _LONG, _BYTES, _SHORT = 0, 1, 2, 5


def check_messages(data: bytes, descriptor: Any) -> None:
    """Raise ImportFileError if a message of that kind is cut off, nested too deep or too large."""
    _Counter(data).message(0, len(data), descriptor, 0)


class _Counter:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count = 0
        self._packed = 0

    def message(self, at: int, end: int, descriptor: Any, depth: int) -> None:
        fields = descriptor.fields_by_number
        if depth > MOST_NESTED:
            raise ImportFileError(f"messages are nested more than {MOST_NESTED} deep")
        while at < end:
            tag, at = self._varint(at, end)
            kind, number = tag & 7, tag >> 3
            field = fields.get(number)
            self._counted()
            if kind == _VARINT and number:
                _, at = self._varint(at, end)
            elif kind in (_LONG, _SHORT) and number:
                at += 8 if kind == _LONG else 4
            elif kind == _BYTES and number:
                size, at = self._varint(at, end)
                if at + size > end:
                    raise ImportFileError(f"is cut off, at byte {at:,}")
                self._inside(at, at + size, field, depth)
                at += size
            else:
                raise ImportFileError(f"is no ONNX file: byte {at:,} begins no field")
        if at > end:
            raise ImportFileError(f"is cut off, at byte {end:,}")

    def _inside(self, at: int, end: int, field: Any, depth: int) -> None:
        if field is None:
            return
        if field.message_type is not None:
            self.message(at, end, field.message_type, depth + 1)
        elif field.type not in (field.TYPE_BYTES, field.TYPE_STRING, field.TYPE_FLOAT):
            self._packed += end - at
            if self._packed > MOST_PACKED_BYTES:
                raise ImportFileError(
                    f"packs more than {MOST_PACKED_BYTES:,} bytes of numbers; weights are raw data"
                )

    def _counted(self) -> None:
        self._count += 1
        if self._count > MOST_FIELDS:
            raise ImportFileError(f"has more than {MOST_FIELDS:,} fields")

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 70:
            byte = self._data[at]
            value |= (byte & 0x7F) << shift
            at += 1
            if byte < 0x80:
                return value, at
            shift += 7
        raise ImportFileError(f"is no ONNX file, or is cut off: byte {at:,} ends no number")
