"""Would fail if parties could not fine-tune a chat model together on conversations of their own: by
adapters, with the template that the model is asked with, and the loss on the answers alone."""

import json
import os
import random
import re
import struct
import unittest

from cluster import atoll
from safetensors import safetensors_bytes, sha256
from text_case import TextCase

CONFIG = os.path.join(os.environ.get("ATOLL_SOURCE", ""), "configs", "lora-chat.toml")

WIDTH, HIDDEN, HEADS, CONTEXT = 32, 64, 2, 64
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# What each peer trains of adapters of rank 16, which have slices of 4.
RANKS = {"peer-1": 4, "peer-2": 8, "peer-3": 16, "peer-4": 16}
TARGETS = ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def byte_level_tokenizer():
    """A token a byte, as GPT-2 writes bytes, and those of ChatML behind them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    vocabulary = {chr(byte if byte in shown else next(others)): byte for byte in range(256)}
    added = [{"id": 256 + i, "content": token, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": True}
             for i, token in enumerate(SPECIAL)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                      "merges": []}}


def llama_tensors(vocabulary):
    """One block with random values; what it says is noise."""
    draw = random.Random(7)

    def matrix(rows, columns, deviation):
        return ("F32", [rows, columns], [draw.gauss(0, deviation) for _ in range(rows * columns)])

    ones = ("F32", [WIDTH], [1.0] * WIDTH)
    block = "model.layers.0."
    tensors = {"model.embed_tokens.weight": matrix(vocabulary, WIDTH, 0.2),
               "lm_head.weight": matrix(vocabulary, WIDTH, 0.2), "model.norm.weight": ones,
               block + "input_layernorm.weight": ones,
               block + "post_attention_layernorm.weight": ones}
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        tensors[f"{block}self_attn.{name}.weight"] = matrix(WIDTH, WIDTH, 0.1)
    tensors[block + "mlp.gate_proj.weight"] = matrix(HIDDEN, WIDTH, 0.1)
    tensors[block + "mlp.up_proj.weight"] = matrix(HIDDEN, WIDTH, 0.1)
    tensors[block + "mlp.down_proj.weight"] = matrix(WIDTH, HIDDEN, 0.1)
    return tensors


def with_values(text, values):
    """The config `text` with other values for keys that stand there once."""
    for key, value in values.items():
        text, found = re.subn(rf"(?m)^{key} = [^#\n]*", f"{key} = {value} ", text)
        assert found == 1, f"{CONFIG} has {found} lines with the key {key}"
    return text


class ChatTest(TextCase):

    def make_model(self):
        vocabulary = 256 + len(SPECIAL)
        os.mkdir(self.at("model"))
        self.write("model/tokenizer.json", json.dumps(byte_level_tokenizer()))
        self.write("model/tokenizer_config.json", json.dumps({"eos_token": "<|im_end|>"}))
        self.write("model/config.json", json.dumps(
            {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
             "intermediate_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": HEADS,
             "num_key_value_heads": HEADS, "max_position_embeddings": CONTEXT,
             "vocab_size": vocabulary, "hidden_act": "silu", "rms_norm_eps": 1e-5,
             "rope_theta": 10000.0, "tie_word_embeddings": False}))
        with open(self.at("model/model.safetensors"), "wb") as out:
            out.write(safetensors_bytes(llama_tensors(vocabulary)))
        done = atoll("import", "--input", self.at("model"), "--output", self.at("base"))
        self.assertEqual(0, done.returncode, done.stderr)
        with open(self.at("base/model.safetensors"), "rb") as file:
            return vocabulary, sha256(file.read())

    def conversations(self, party):
        """Whatever is asked, the answer is yes."""
        draw = random.Random(party)
        lines = []
        for _ in range(40):
            asked = "".join(draw.choice("abcdefgh ") for _ in range(draw.randint(3, 10)))
            lines.append(json.dumps({"messages": [{"role": "user", "content": asked},
                                                  {"role": "assistant", "content": "yes"}]}))
        return "\n".join(lines) + "\n"

    def config(self):
        vocabulary, digest = self.make_model()
        with open(CONFIG, encoding="utf-8") as file:
            text = file.read()
        quoted = {"base": self.at("base/model.safetensors"), "base_digest": digest,
                  "tokenizer": self.at("base/tokenizer.json"), "lora_targets": ",".join(TARGETS),
                  "path": self.at("party-{peer}.jsonl")}
        text = with_values(text, {key: f'"{value}"' for key, value in quoted.items()})
        text = re.sub(r"(?m)^learning_rate = 1e-3", "learning_rate = 1e-2", text)
        text = re.sub(r"(?m)^min_learning_rate = 1e-4", "min_learning_rate = 1e-3", text)
        return with_values(text, {
            "layers": 1, "heads": HEADS, "kv_heads": HEADS, "width": WIDTH, "hidden": HIDDEN,
            "context": CONTEXT, "vocabulary": vocabulary, "tied": "false", "rope_theta": 10000.0,
            "lora_rank": "16\nlora_slice = 4", "lora_alpha": 32.0, "rounds": 6, "epochs": 5,
            "steps": 25, "warmup_steps": 0, "every_rounds": 0})

    def answer(self, asked, *more):
        done = atoll("generate", "--dir", self.at("run"), "--base",
                     self.at("base/model.safetensors"), "--prompt", asked, "--tokens", "8",
                     "--temperature", "0", "--json", *more)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)["text"]

    def check_ranks(self):
        """Each update covers the slices of its peer's ranks, and each mean is of these updates."""
        shown = atoll("log", "list", "--dir", self.at("run"), "--json")
        self.assertEqual(0, shown.returncode, shown.stderr)
        seen = set()
        for header in json.loads(shown.stdout):
            owned = {one["peer"]: one["owned"] for one in header["contributors"]}
            seen |= set(owned)
            for peer, slices in owned.items():
                self.assertEqual(list(range(RANKS[peer] // 4)), slices, header)
            most = [sum(i in slices for slices in owned.values()) for i in range(4)]
            counts = [len(header["sets"][run["set"]]) for run in header["runs"]
                      for _ in range(run["chunks"])]
            self.assertEqual(4, len(counts), header)  # each slice is smaller than a chunk
            for count, trained in zip(counts, most):
                self.assertLessEqual(count, trained, header)
        self.assertEqual(set(RANKS), seen)

    def check_adapter(self):
        for rank, said in (("6", "must be a multiple of [model] lora_slice (4)"),
                           ("20", "lora_rank = 16")):
            done = atoll("export", "--dir", self.at("run"), "--output", self.at("no"), "--base",
                         "tiny-chat", "--lora-rank", rank)
            self.assertNotEqual(0, done.returncode, done.stdout)
            self.assertIn(said, done.stderr)
        done = atoll("export", "--dir", self.at("run"), "--output", self.at("adapter"), "--base",
                     "tiny-chat", "--lora-rank", "8")
        self.assertEqual(0, done.returncode, done.stderr)
        with open(self.at("adapter/adapter_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(["LORA", "CAUSAL_LM", 8, 16.0, "tiny-chat"],
                         [config[key] for key in ("peft_type", "task_type", "r", "lora_alpha",
                                                  "base_model_name_or_path")])
        self.assertEqual(sorted(TARGETS), sorted(config["target_modules"]))
        with open(self.at("adapter/adapter_model.safetensors"), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        header.pop("__metadata__", None)
        names = {f"base_model.model.model.layers.0.{part}.{target}.lora_{side}.weight"
                 for part, targets in (("self_attn", TARGETS[:3]), ("mlp", TARGETS[3:]))
                 for target in targets for side in "AB"}
        self.assertEqual(names, set(header))
        wide = header["base_model.model.model.layers.0.mlp.up_proj.lora_B.weight"]
        self.assertEqual([HIDDEN, 8], wide["shape"])

    def test_parties_teach_a_model_to_answer(self):
        config = self.config()
        for party in range(1, 5):
            self.write(f"party-{party}.jsonl", self.conversations(party))
        # What is wrong with a party's data is said before anything is started.
        self.write("bad.jsonl", '{"messages": [{"role": "user", "content": "hi"}]}\n')
        seen = atoll("data", "inspect", self.at("bad.jsonl"), "--template", "chatml",
                     "--tokenizer", self.at("base/tokenizer.json"))
        self.assertEqual(2, seen.returncode, seen.stdout)
        self.assertIn('line 1 has no message of the role "assistant"', seen.stderr)
        seen = atoll("data", "inspect", self.at("party-1.jsonl"), "--template", "chatml",
                     "--tokenizer", self.at("base/tokenizer.json"), "--json")
        self.assertEqual(0, seen.returncode, seen.stderr)
        # Three letters and the token that ends them.
        self.assertIn("40 conversations; 160 of ", " ".join(json.loads(seen.stdout)["notes"]))

        report = self.train(config, "run", "--lora-ranks", ",".join(map(str, RANKS.values())))
        self.check_ranks()
        self.assertEqual(1, len({peer["state_digest"] for peer in report["peers"]}))
        for asked in ("abc", "hgf edc", "bad cab"):
            self.assertEqual("yes", self.answer(asked, "--template", "chatml"))
        # The same in the words of the template itself.
        prompt = "<|im_start|>user\nabc<|im_end|>\n<|im_start|>assistant\n"
        self.assertEqual(prompt + "yes", self.answer(prompt, "--stop", "<|im_end|>"))
        self.check_adapter()


if __name__ == "__main__":
    unittest.main()
