#!/usr/bin/env python3
"""Reads a model's folder with the standard library alone, knowing only what Hugging Face and the
safetensors format publish: read_hub_folder.py FOLDER DTYPE TENSOR INDEX VALUE.

Fails with a line if a tensor that the architecture of config.json needs is missing or of another
shape or dtype, if one is too many, if the bytes do not tile the files, or if element INDEX of
TENSOR is not VALUE. Where transformers is installed it must load the folder without a complaint.
"""
import json
import math
import os
import struct
import sys

WIDTHS = {"F32": 4, "BF16": 2}


def read_file(path):
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, next_end = entry["data_offsets"]
        size = math.prod(entry["shape"]) * WIDTHS[entry["dtype"]]
        assert begin == end and next_end - begin == size, f"{name}: bytes {begin}-{next_end}"
        end = next_end
        yield name, entry, body[begin:next_end]
    assert end == len(body), f"{path}: {len(body) - end} bytes of nobody's"


def read_folder(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return {name: rest for name, *rest in read_file(os.path.join(folder, "model.safetensors"))}
    with open(index) as file:
        places = json.load(file)["weight_map"]
    tensors = {}
    for shard in sorted(set(places.values())):
        for name, *rest in read_file(os.path.join(folder, shard)):
            assert places[name] == shard, f"{name} is in {shard}, not in {places[name]}"
            tensors[name] = rest
    assert set(tensors) == set(places), "the index names other tensors than the files hold"
    return tensors


def gpt2_shapes(c):
    width, inner = c["n_embd"], c["n_inner"]
    shapes = {"transformer.wte.weight": [c["vocab_size"], width],
              "transformer.wpe.weight": [c["n_positions"], width]}
    for i in range(c["n_layer"]):
        block = f"transformer.h.{i}."
        for norm in ("ln_1", "ln_2"):
            shapes[block + norm + ".weight"] = shapes[block + norm + ".bias"] = [width]
        for name, rows, columns in (("attn.c_attn", width, 3 * width),
                                    ("attn.c_proj", width, width),
                                    ("mlp.c_fc", width, inner), ("mlp.c_proj", inner, width)):
            shapes[block + name + ".weight"] = [rows, columns]
            shapes[block + name + ".bias"] = [columns]
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = [width]
    return shapes


def llama_shapes(c):
    family, width, head = c["model_type"], c["hidden_size"], c["head_dim"]
    queries, keys = head * c["num_attention_heads"], head * c["num_key_value_heads"]
    biased = c.get("attention_bias", False)
    norms = ["post_attention_layernorm"]
    if family != "olmo2":
        norms.append("input_layernorm")
    if family == "olmo2" or family.startswith("gemma"):
        norms.append("post_feedforward_layernorm")
    if family.startswith("gemma"):
        norms.append("pre_feedforward_layernorm")
    shapes = {"model.embed_tokens.weight": [c["vocab_size"], width], "model.norm.weight": [width]}
    for i in range(c["num_hidden_layers"]):
        block = f"model.layers.{i}."
        for norm in norms:
            shapes[block + norm + ".weight"] = [width]
        if family in ("qwen3", "gemma3_text", "qwen3_moe"):
            for name in ("q_norm", "k_norm"):
                shapes[f"{block}self_attn.{name}.weight"] = [head]
        if family in ("olmo2", "olmoe"):
            shapes[block + "self_attn.q_norm.weight"] = [queries]
            shapes[block + "self_attn.k_norm.weight"] = [keys]
        for name, out, size, bias in (
                ("self_attn.q_proj", queries, width, biased or family == "qwen2"),
                ("self_attn.k_proj", keys, width, biased or family == "qwen2"),
                ("self_attn.v_proj", keys, width, biased or family == "qwen2"),
                ("self_attn.o_proj", width, queries, biased)):
            shapes[block + name + ".weight"] = [out, size]
            if bias:
                shapes[block + name + ".bias"] = [out]
        shapes.update((block + name + ".weight", shape) for name, shape in network_shapes(c, i))
    return shapes


def network_shapes(c, layer):
    """Names and shapes of the feed-forward part of a layer."""
    width, inner = c["hidden_size"], c["intermediate_size"]
    module, names = "mlp", ("gate_proj", "up_proj", "down_proj")
    experts = c.get("num_experts", c.get("num_local_experts", 0))
    sparse = (layer + 1) % c.get("decoder_sparse_step", 1) == 0
    places = [f"{module}."]
    if experts and sparse and layer not in c.get("mlp_only_layers", []):
        inner = c.get("moe_intermediate_size", inner)
        if c["model_type"] == "mixtral":
            module, names = "block_sparse_moe", ("w1", "w3", "w2")
        places = [f"{module}.experts.{i}." for i in range(experts)]
        yield f"{module}.gate", [experts, width]
    for place in places:
        yield place + names[0], [inner, width]
        yield place + names[1], [inner, width]
        yield place + names[2], [width, inner]


def main():
    folder, dtype, tensor, index, value = sys.argv[1:]
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    shapes = (gpt2_shapes if config["model_type"] == "gpt2" else llama_shapes)(config)
    if not config["tie_word_embeddings"]:
        embedding = shapes.get("transformer.wte.weight") or shapes["model.embed_tokens.weight"]
        shapes["lm_head.weight"] = embedding
    tensors = read_folder(folder)
    assert set(tensors) == set(shapes), f"tensors: {sorted(set(tensors) ^ set(shapes))}"
    for name, (entry, _) in tensors.items():
        assert entry["shape"] == shapes[name], f"{name}: {entry['shape']}, not {shapes[name]}"
        assert entry["dtype"] == dtype, f"{name}: {entry['dtype']}"
    raw = tensors[tensor][1]
    if dtype == "F32":
        found, = struct.unpack_from("<f", raw, 4 * int(index))
    else:
        found, = struct.unpack("<f", b"\0\0" + raw[2 * int(index):2 * int(index) + 2])
    assert found == float(value), f"{tensor}[{index}] is {found}, not {value}"
    try:
        from transformers import AutoModelForCausalLM
    except ImportError:
        return
    _, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), f"transformers: {report}"


try:
    main()
except AssertionError as error:
    sys.exit(str(error))
