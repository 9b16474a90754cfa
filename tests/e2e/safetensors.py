"""Files of the tests beside: safetensors and numpy's, without numpy."""

import array
import hashlib
import json
import os
import random
import struct

CODES = {"F32": ("f", "<f4"), "I64": ("q", "<i8")}


def safetensors_bytes(tensors):
    """{name: (dtype, shape, values)} as a safetensors file."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        part = array.array(CODES[dtype][0], values).tobytes()
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def npy_bytes(dtype, shape, values):
    """The same of one array, as numpy.save writes it."""
    code, descr = CODES[dtype]
    size = ", ".join(str(n) for n in shape) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({size}), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header +
            array.array(code, values).tobytes())


def gpt_tensors(layers, width, context, vocabulary=256, seed=1):
    """A model of kind "gpt" with random values."""
    draw = random.Random(seed)
    shapes = {"transformer.wte.weight": [vocabulary, width],
              "transformer.wpe.weight": [context, width], "transformer.ln_f.weight": [width]}
    for layer in range(layers):
        prefix = f"transformer.h.{layer}."
        shapes.update({prefix + "ln_1.weight": [width], prefix + "ln_2.weight": [width],
                       prefix + "attn.c_attn.weight": [3 * width, width],
                       prefix + "attn.c_proj.weight": [width, width],
                       prefix + "mlp.c_fc.weight": [4 * width, width],
                       prefix + "mlp.c_proj.weight": [width, 4 * width]})
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0] * count if len(shape) == 1 else [draw.gauss(0, 0.02) for _ in range(count)]
        tensors[name] = ("F32", shape, values)
    return tensors


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def replace(path, data):
    """Whole at once: who has the old file open keeps reading that."""
    with open(path + ".new", "wb") as out:
        out.write(data)
    os.replace(path + ".new", path)
