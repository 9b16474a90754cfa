"""TensorBoard's event files: records of TensorFlow's TFRecord format, each a message Event.

The format is small, so neither TensorFlow nor a writer for it is needed. A record is the length of
its data in 8 bytes, a checksum of these, the data, and a checksum of the data. All numbers are
little-endian; a checksum is CRC-32C, rotated and shifted. Protocol buffers are written by hand: of
Event (1 wall_time, 2 step, 3 file_version, 5 summary), Summary (1 value) and its Value (1 tag, 2
simple_value, 9 metadata).
"""

import os
import struct
from typing import Dict, Iterator, List, Tuple, Union

VERSION = b"brain.Event:2"
HEADER = struct.Struct("<QI")
CHECKSUM = struct.Struct("<I")
# No record of this program's is longer; a larger length is damage.
MOST_BYTES = 1 << 20


def _table() -> List[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((length, CHECKSUM.pack(masked_crc(length)), data,
                     CHECKSUM.pack(masked_crc(data))))


def records(content: bytes) -> Iterator[Tuple[int, bytes]]:
    """Every whole record: where it ends, and its data. Ends before a torn or damaged one."""
    at = 0
    while at + HEADER.size <= len(content):
        length, checksum = HEADER.unpack_from(content, at)
        end = at + HEADER.size + length + CHECKSUM.size
        if checksum != masked_crc(content[at:at + 8]) or length > MOST_BYTES or end > len(content):
            return
        data = content[at + HEADER.size:end - CHECKSUM.size]
        # Checksums of long files take seconds; only the last record can be torn.
        if end == len(content) and CHECKSUM.unpack_from(content, end - 4)[0] != masked_crc(data):
            return
        yield end, data
        at = end


# -- Protocol buffers ------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def _double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def fields(data: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """The fields of a message: numbers as they are, anything else as bytes."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        kind = key & 7
        if kind == 0:
            yield key >> 3, number()
            continue
        length = {1: 8, 5: 4}.get(kind) if kind != 2 else number()
        if length is None:
            raise ValueError(f"a field of wire type {kind}")
        yield key >> 3, data[at:at + length]
        at += length


def _event(when: float, step: int, values: List[bytes]) -> bytes:
    summary = b"".join(_bytes(1, value) for value in values)
    return _double(1, when) + varint(2 << 3) + varint(step) + _bytes(5, summary)


def scalars(when: float, step: int, figures: Dict[str, float]) -> bytes:
    """An Event with a number for each tag, which are there together or not at all."""
    return _event(when, step, [
        _bytes(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", clipped(value))
        for tag, value in figures.items()])


def clipped(value: float) -> float:
    """The value as 32 bits hold it: beyond their range it is infinite."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def hyperparameters(when: float, parameters: Dict[str, Union[int, float, str, bool]]) -> bytes:
    """What TensorBoard's tab HPARAMS shows of a run: the message HParamsPluginData (3
    session_start_info) as a plugin's content, with google.protobuf.Value (2 number, 3 text, 4
    flag)."""
    entries = b""
    for name, value in parameters.items():
        if isinstance(value, bool):
            held = varint(4 << 3) + varint(int(value))
        elif isinstance(value, str):
            held = _bytes(3, value.encode())
        else:
            held = _double(2, float(value))
        entries += _bytes(1, _bytes(1, name.encode()) + _bytes(2, held))
    content = _bytes(3, entries + _double(5, when))
    plugin = _bytes(1, b"hparams") + _bytes(2, content)
    return _event(when, 0, [_bytes(1, b"_hparams_/session_start_info") +
                            _bytes(9, _bytes(1, plugin))])


def steps_of(data: bytes) -> Tuple[int, List[str]]:
    """The step of an Event and the tags of its numbers."""
    step, tags = 0, []
    for number, value in fields(data):
        if number == 2:
            step = int(value)
        elif number == 5:
            for _, one in fields(value):
                parts = dict(fields(one))
                if 2 in parts:
                    tags.append(parts[1].decode())
    return step, tags


# -- The file --------------------------------------------------------------------------------------


class EventFile:
    """One file to which events are added, each by one write. What a death or a full disk has torn
    at its end is taken away when it is opened."""

    def __init__(self, path: str):
        self.newest: Dict[str, int] = {}  # the newest step of each tag
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            with open(path, "rb") as source:
                content = source.read()
            self._end = 0
            for self._end, data in records(content):
                step, tags = steps_of(data)
                for tag in tags:
                    self.newest[tag] = max(step, self.newest.get(tag, -1))
            if self._end < len(content):
                os.ftruncate(self._file, self._end)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def empty(self) -> bool:
        return self._end == 0

    def begin(self, when: float) -> None:
        self.add(_double(1, when) + _bytes(3, VERSION))

    def add(self, event: bytes) -> None:
        data = record(event)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(data)

    def close(self) -> None:
        os.fsync(self._file)
        os.close(self._file)
