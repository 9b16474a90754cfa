#!/usr/bin/env python3
"""Writes decoder_reference.txt and, for mixtures of experts, mixture_reference.txt: loss, logits
and gradients of tiny models of the Llama family, as Hugging Face's transformers 5 computes them in
fp32, and the config.json that it saves for each.

Parameters and tokens come from a generator that the C++ test repeats exactly, seeded by the
tensor's name, so that only what comes out is stored: of every tensor its length, its product with
sin(0), sin(1), ... and three of its values. Run it only to make the file again (pip install torch
transformers).
"""
import json
import math
import os

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

BATCH, LENGTH, VOCABULARY = 2, 24, 24
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rms_norm_eps=1e-5, pad_token_id=None, bos_token_id=None, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=50.0, factor=4.0, low_freq_factor=0.25,
              high_freq_factor=2.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16,
            beta_fast=4.0, beta_slow=1.0)
SLIDING, FULL = "sliding_attention", "full_attention"
GEMMA = dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=6, tie_word_embeddings=True,
             num_hidden_layers=3)

# Sequences have 24 tokens: beyond the 16 of every scaling, and beyond every window.
CASES = {
    "llama": ("llama", dict(tie_word_embeddings=True)),
    "llama-llama3": ("llama", dict(rope_parameters=LLAMA3)),
    "llama-linear": ("llama", dict(rope_parameters=dict(rope_type="linear", rope_theta=100.0,
                                                        factor=3.0))),
    "llama-yarn": ("llama", dict(rope_parameters=YARN)),
    "llama-yarn-mscale": ("llama", dict(rope_parameters=dict(YARN, mscale=1.0,
                                                             mscale_all_dim=0.5))),
    "llama-bias-head": ("llama", dict(attention_bias=True, head_dim=16)),
    "mistral": ("mistral", dict(sliding_window=6)),
    "mistral-whole": ("mistral", dict(sliding_window=None, head_dim=12)),
    "qwen2": ("qwen2", dict(tie_word_embeddings=True)),
    "qwen2-window": ("qwen2", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=5,
                                   max_window_layers=1, rope_parameters=YARN)),
    "qwen3": ("qwen3", dict(head_dim=16)),
    "qwen3-window": ("qwen3", dict(attention_bias=True, use_sliding_window=True, sliding_window=7,
                                   layer_types=[SLIDING, FULL])),
    "smollm3": ("smollm3", dict(num_hidden_layers=3, no_rope_layer_interval=2)),
    "smollm3-window": ("smollm3", dict(num_hidden_layers=3, no_rope_layers=[1, 0, 0],
                                       use_sliding_window=True, sliding_window=6,
                                       tie_word_embeddings=False)),
    "olmo2": ("olmo2", dict()),
    "olmo2-scaled": ("olmo2", dict(attention_bias=True, rope_parameters=LLAMA3)),
    "gemma2": ("gemma2", dict(GEMMA, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)),
    "gemma3": ("gemma3_text", dict(GEMMA, layer_types=[SLIDING, SLIDING, FULL], rope_parameters={
        FULL: dict(rope_type="linear", rope_theta=1000.0, factor=2.0),
        SLIDING: dict(rope_type="default", rope_theta=100.0)})),
}

# In all of them a token's last chosen expert is by 0.001 likelier than the next, so that rounding
# changes no choice.
EXPERTS = dict(num_experts_per_tok=2, tie_word_embeddings=False)
QWEN = dict(EXPERTS, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=12, head_dim=16)
OLMOE = dict(EXPERTS, num_experts=4)
BALANCED = dict(output_router_logits=True, router_aux_loss_coef=0.25)
MIXTURES = {
    "mixtral": ("mixtral", dict(EXPERTS, num_local_experts=4)),
    "mixtral-balanced": ("mixtral", dict(EXPERTS, **BALANCED, num_local_experts=5,
                                         sliding_window=6)),
    "qwen3_moe": ("qwen3_moe", dict(QWEN, norm_topk_prob=True)),
    "qwen3_moe-dense-layers": ("qwen3_moe", dict(
        QWEN, **BALANCED, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3],
        attention_bias=True, use_sliding_window=True, sliding_window=7)),
    "olmoe": ("olmoe", dict(OLMOE, clip_qkv=0.75)),
    "olmoe-balanced": ("olmoe", dict(OLMOE, **BALANCED, num_experts_per_tok=1,
                                     tie_word_embeddings=True)),
}
# By module: what transformers 5 keeps as one tensor, and the names of its parts in a checkpoint.
FUSED = {"mixtral": ("block_sparse_moe", {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)}),
         None: ("mlp", {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)})}


class Lcg:
    def __init__(self, name):
        self.state = 2166136261  # FNV-1a
        for byte in name.encode():
            self.state = (self.state ^ byte) * 16777619 % 2**32

    def next(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state >> 8


def fill(name, tensor, norm_mean):
    """Norms lie around their neutral value, all else around 0."""
    lcg = Lcg(name)
    norm = tensor.dim() == 1 and not name.endswith(".bias")
    values = [(lcg.next() / 2**24 - 0.5) * 0.5 + (norm_mean if norm else 0.0)
              for _ in range(tensor.numel())]
    with torch.no_grad():
        tensor.copy_(torch.tensor(values, dtype=torch.float64).view(tensor.shape))


def stored(model, values):
    """Names and tensors as a checkpoint has them, of the parameters' values(parameter)."""
    module, fused = FUSED.get(model.config.model_type, FUSED[None])
    for name, parameter in model.named_parameters():
        before, _, last = name.rpartition(".mlp.experts.")
        if not before:
            yield name.replace(".mlp.", f".{module}."), values(parameter)
            continue
        for i, expert in enumerate(values(parameter)):
            parts = fused[last]
            for part, tensor in zip(parts, expert.chunk(len(parts))):
                yield f"{before}.{module}.experts.{i}.{part}.weight", tensor


def summary(tensor):
    flat = tensor.detach().double().reshape(-1)
    weights = torch.tensor([math.sin(i) for i in range(flat.numel())], dtype=torch.float64)
    return [flat.norm().item(), (flat * weights).sum().item(), flat[0].item(),
            flat[flat.numel() // 2].item(), flat[-1].item()]


def made(model_type, changes):
    config = AutoConfig.for_model(model_type, **{**SIZES, **changes})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().train()
    for name, tensor in stored(model, lambda parameter: parameter.data):
        fill(name, tensor, 0.0 if model_type.startswith("gemma") else 1.0)
    return model


def saved_config(model):
    """As save_pretrained writes it, without what says when and by whom."""
    config = json.loads(model.config.to_json_string(use_diff=True))
    config["architectures"] = [type(model).__name__]
    config.pop("transformers_version", None)
    return config


def write(path, cases, rows):
    with open(path, "w") as out:
        def line(name, values):
            out.write(f"{name} {len(values)} " + " ".join("%.8g" % value for value in values)
                      + "\n")
        for case, (model_type, changes) in cases.items():
            model = made(model_type, changes)
            out.write(f"case {case}\n{json.dumps(saved_config(model), separators=(',', ':'))}\n")
            result = model(rows[:, :-1])
            logits = result.logits
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY),
                                                     rows[:, 1:].reshape(-1))
            if getattr(model.config, "output_router_logits", False):
                loss = loss + model.config.router_aux_loss_coef * result.aux_loss
            loss.backward()
            line("loss", [loss.item()])
            line("logits", summary(logits))
            line("last", logits[-1, -1].tolist())
            for name, gradient in stored(model, lambda parameter: parameter.grad):
                line(name, summary(gradient))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    lcg = Lcg("tokens")
    rows = torch.tensor([lcg.next() % VOCABULARY for _ in range(BATCH * (LENGTH + 1))])
    rows = rows.view(BATCH, -1)
    write(os.path.join(here, "decoder_reference.txt"), CASES, rows)
    write(os.path.join(here, "mixture_reference.txt"), MIXTURES, rows)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
