"""Reads what atoll-track writes, and shares no code with it: TensorBoard's event files, and the
files of Weights & Biases, which want the library's messages."""

import json
import struct


def crc_by_bits(data):
    """CRC-32C from its definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def number_at(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def message(data):
    """A protocol buffer as a list of (field, value)."""
    found, at = [], 0
    while at < len(data):
        key, at = number_at(data, at)
        if key % 8 == 0:
            value, at = number_at(data, at)
        elif key % 8 == 2:
            length, at = number_at(data, at)
            value, at = data[at:at + length], at + length
        else:
            form = {1: "<d", 5: "<f"}[key % 8]
            value, at = struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
        found.append((key // 8, value))
    return found


def points_of_file(path):
    """{(step, tag): [values]} of an event file, every byte of which must be right."""
    with open(path, "rb") as opened:
        content = opened.read()
    found, at, first = {}, 0, True
    while at < len(content):
        length, check = struct.unpack_from("<QI", content, at)
        assert check == crc_by_bits(content[at:at + 8]), f"at {at}"
        data = content[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", content, at + 12 + length)[0] == crc_by_bits(data)
        event = message(data)
        assert not first or dict(event)[3] == b"brain.Event:2"
        first = False
        for value in (v for n, summary in event if n == 5 for _, v in message(summary)):
            parts = dict(message(value))
            if 2 in parts:
                key = (dict(event).get(2, 0), parts[1].decode())
                found.setdefault(key, []).append(parts[2])
        at += 16 + length
    return found


def rows_of_wandb(path):
    """The rows of a file of W&B's: 7 bytes, then LevelDB's log format with messages of its own."""
    from wandb.proto import wandb_internal_pb2
    with open(path, "rb") as opened:
        content = opened.read()
    rows, at, data = [], 7, b""
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        data += content[at + 7:at + 7 + length]
        at += 7 + length
        if kind not in (1, 4):  # whole, or the last part
            continue
        record = wandb_internal_pb2.Record.FromString(data)
        data = b""
        if record.HasField("history"):
            rows.append((record.history.step.num, {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item}))
    return rows
