"""Trains a tiny model of each family of Hugging Face's, as users do, and checks what comes out.

    PATH=build/release/bin:$PATH PYTHON -m pip install './worker/python[hf]'
    ATOLL_BIN=build/release/bin PYTHON tests/bench/huggingface_check.py [--only NAME,...]

PYTHON is one that has PyTorch 2.9 or newer, transformers, PEFT and atoll_worker, and for
llama-qlora bitsandbytes and accelerate; no model and no text is downloaded. Of each family: three
peers, one worker killed in the middle, equal digests at the end, a lower loss than at first, an
exported folder that transformers loads, and the run's loss the same as what transformers itself
says of that folder, to 1e-4. One line a family; the exit status is the number of families that
failed.
"""

import argparse
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from cluster import BIN, Cluster, equal_digests, wait_for, write_corpus  # noqa: E402

sys.path.pop(0)  # the tests' own safetensors.py is not the library's

ROUNDS, STEPS, CONTEXT, HELD_OUT = 8, 6, 32, 0.1
CLOSE = 1e-4
PATIENCE = 300  # seconds: three interpreters read PyTorch on a small machine

CONFIG = """
[run]
rounds = {rounds}
peers = 3
quorum = 3
[model]
kind = "huggingface"
path = "{model}"
context = {context}
{adapters}
[data]
path = "{data}"
validation_fraction = {held_out}
[inner]
optimizer = "{optimizer}"
steps = {steps}
batch = 4
accumulation = 2
learning_rate = 0.005
warmup_steps = 2
[outer]
rule = "average"
[exchange]
codec = "int8"
chunk_elements = 4096
[evaluation]
tokens = 0
every_rounds = 4
[membership]
failure_timeout = "10s"
[worker]
program = "{program}"
"""

SMALL = {"vocab_size": 320, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA = {**SMALL, "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 128}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0,
               "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}


def configs(transformers):
    """A name, a config, whether adapters are trained in its place, and in how many bits it is."""
    llama32 = transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True)
    llama32.rope_parameters = LLAMA3_ROPE
    return {
        "qwen3": (transformers.Qwen3Config(**LLAMA, head_dim=8, tie_word_embeddings=True), {}),
        "llama-3.2": (llama32, {}),
        "mistral": (transformers.MistralConfig(**LLAMA, sliding_window=16), {"optimizer": "muon"}),
        "gemma-3": (transformers.Gemma3TextConfig(**LLAMA, head_dim=8, sliding_window=16), {}),
        "smollm": (transformers.LlamaConfig(**{**LLAMA, "num_attention_heads": 2,
                                               "num_key_value_heads": 1},
                                            tie_word_embeddings=True), {}),
        "gpt-2": (transformers.GPT2Config(vocab_size=320, n_embd=32, n_layer=2, n_head=4,
                                          n_positions=128, bos_token_id=0, eos_token_id=0), {}),
        "llama-lora": (transformers.LlamaConfig(**LLAMA), {"lora_rank": 4}),
        "llama-qlora": (transformers.LlamaConfig(**LLAMA), {"lora_rank": 4, "base_bits": 4}),
    }


def make_tokenizer(transformers, corpus, folder):
    import tokenizers
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    model.train([corpus], tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<eos>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    transformers.PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<eos>",
                                         bos_token="<eos>").save_pretrained(folder)


def make_program(folder):
    """What pip puts beside this Python, whether it is installed there or on PYTHONPATH."""
    path = os.path.join(folder, "atoll-hf-worker")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"#!{sys.executable}\nimport sys\n"
                  "from atoll_worker.huggingface.command import main\nsys.exit(main())\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def config_text(model, data, program, options):
    adapters = "\n".join(f"{key} = {options[key]}" for key in ("lora_rank", "base_bits")
                         if key in options)
    return CONFIG.format(rounds=ROUNDS, steps=STEPS, context=CONTEXT, held_out=HELD_OUT,
                         model=model, data=data, program=program, adapters=adapters,
                         optimizer=options.get("optimizer", "adamw"))


def own_loss(transformers, folder, corpus, options):
    """What transformers says of the held-out text: the mean of its own losses of equal rows."""
    import torch
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if "lora_rank" in options:
        import peft
        named = {}
        if "base_bits" in options:
            named = {"device_map": {"": "cpu"},
                     "quantization_config": transformers.BitsAndBytesConfig(
                         load_in_4bit=True, bnb_4bit_quant_type="nf4",
                         bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float32)}
        model = peft.AutoPeftModelForCausalLM.from_pretrained(folder, **named)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    # Evaluated, bitsandbytes computes in bf16 on CPUs that can; these models have no dropout.
    model.train("base_bits" in options)
    with open(corpus, encoding="utf-8") as source:
        ids = tokenizer(source.read(), add_special_tokens=False)["input_ids"]
    ids = ids[int(len(ids) * (1.0 - HELD_OUT)):]
    losses = []
    with torch.no_grad():
        for first in range(0, len(ids) - CONTEXT, CONTEXT):
            row = torch.tensor([ids[first:first + CONTEXT + 1]])
            losses.append(float(model(input_ids=row, labels=row).loss))
    return sum(losses) / len(losses)


def check(transformers, name, config, options, top, corpus):
    """The columns of its line. AssertionError: what is not as it must be."""
    model = os.path.join(top, name)
    made = transformers.AutoModelForCausalLM.from_config(config)
    made.save_pretrained(model)
    make_tokenizer(transformers, corpus, model)
    program = make_program(top)
    began = time.monotonic()
    with Cluster(peers=3, text=config_text(model, corpus, program, options)) as cluster:
        wait_for("version 3, or the run's end", lambda: cluster.process.poll() is not None or
                 cluster.version() >= 3, PATIENCE)
        assert cluster.process.poll() is None, "the run ended too early:\n" + cluster.text()
        first = wait_for("a worker of peer-2", lambda: cluster.worker_pid("peer-2"))
        os.kill(first, signal.SIGKILL)
        report = cluster.finish(seconds=PATIENCE)
        assert "the worker is gone" in cluster.all_logs("peer-2"), "the worker was not killed"
        assert equal_digests(report), "the digests differ"
        assert all(one["rounds_contributed"] == ROUNDS for one in report["peers"]), report["peers"]
        assert report["final_val_loss"] < report["initial_val_loss"] - 0.05, report
        output = os.path.join(top, name + "-trained")
        done = subprocess.run(
            [os.path.join(BIN, "atoll"), "export", "--dir", cluster.dir, "--output", output,
             "--worker", program, "--base", model], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    theirs = own_loss(transformers, output, corpus, options)
    gap = abs(theirs - report["final_val_loss"])
    assert gap <= CLOSE, f"the run's loss {report['final_val_loss']}, transformers' {theirs}"
    return [name, type(made).__name__, str(report["parameters"]),
            f"{report['initial_val_loss']:.4f}", f"{report['final_val_loss']:.4f}", f"{theirs:.4f}",
            f"{gap:.1e}", f"{time.monotonic() - began:.0f} s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names with commas between them")
    wanted = parser.parse_args().only
    try:
        import transformers
    except ImportError as missing:
        sys.exit(f"{missing}: call this with a Python that has PyTorch, transformers and PEFT")
    transformers.utils.logging.disable_progress_bar()
    heads = ["family", "class", "parameters", "loss at first", "at the end", "transformers'",
             "apart", "time"]
    print(" | ".join(heads), flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="atoll-hf-") as top:
        corpus = os.path.join(top, "text.txt")
        write_corpus(corpus, sentences=400)
        for name, (config, options) in configs(transformers).items():
            if wanted and name not in wanted.split(","):
                continue
            try:
                print(" | ".join(check(transformers, name, config, options, top, corpus)),
                      flush=True)
            except AssertionError as wrong:
                failed += 1
                print(f"{name} | FAILED: {wrong}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
