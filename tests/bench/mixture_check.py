"""Trains tiny mixtures of experts as users do, and compares them with transformers and PEFT.

    PYTHON tests/bench/mixture_check.py --bin build/release/bin --text FILE [--only NAME,NAME]

PYTHON is one that has PyTorch, transformers 5 and PEFT. FILE is any text: its first 120,000 bytes
are the data, a token a byte, and nothing is downloaded. Each line is a model of two layers, and
these must hold for it:

- Two peers train it for six rounds. The validation loss falls, `atoll log verify` finds the same
  state at both, and transformers counts as many parameters.
- The same with `[inner] checkpointing` has the same losses, and with `[peer] values_in = "disk"`,
  where the daemons must have files mapped, the same state. So has kind "gpt". With streaming in
  four fragments the loss falls too.
- What `atoll export` writes is loaded by transformers with no tensor missing or left over. Its loss
  is that of `atoll eval` to 1e-4, and it writes the same 20 bytes as `atoll generate`.
- What transformers writes, by expert and with the experts of a layer in one tensor (the latter cut
  into several files), is imported to the same file. It is evaluated, trained for three rounds and
  exported, and the loss of transformers is that of `atoll eval` each time.
- Adapters are trained on the imported model for three rounds, and PEFT has the loss of `atoll
  eval`.

Last are configs and folders that must be refused, each in one line that names what is wrong. The
exit status is 1 if something differs, and 0 otherwise.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

CONTEXT, HELD_OUT, BYTES, WRITTEN = 64, 0.1, 120_000, 20
CLOSE = 1e-4        # to transformers, which sums in another order
PROMPT = "First Citizen:"
PATIENCE = 300      # seconds

RUN = """
[run]
id = "mixture"
rounds = {rounds}
peers = 2
quorum = 2
{model}
[data]
path = "{data}"
validation_fraction = {held_out}
[inner]
steps = 10
batch = 8
warmup_steps = 4
learning_rate = {rate}
{inner}
[outer]
rule = "average"
[evaluation]
tokens = 0
every_rounds = 1
{more}
"""
SIZES = {"layers": 2, "heads": 4, "kv_heads": 2, "width": 64, "hidden": 96, "context": CONTEXT,
         "vocabulary": 256}
STREAMING = '[mode]\nkind = "streaming"\nfragments = 4\noverlap = 2'
ON_DISK = '[peer]\nvalues_in = "disk"'

# The [model] section; what transformers makes a model of; and the adapters.
SMALL = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
         "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
         "num_experts_per_tok": 2, "initializer_range": 0.1}
QWEN = {**SMALL, "num_experts": 8, "moe_intermediate_size": 48, "head_dim": 16}
ATTENTION = "q_proj,k_proj,v_proj,o_proj"
LINES = {
    "mixtral": (
        {"family": "mixtral", "experts": 4, "experts_per_token": 2, "window": 16},
        ("MixtralConfig", {**SMALL, "num_local_experts": 4, "sliding_window": 24,
                           "output_router_logits": True, "router_aux_loss_coef": 0.02}),
        f"{ATTENTION},w1,w3,w2"),
    "qwen3_moe": (
        {"family": "qwen3_moe", "experts": 8, "experts_per_token": 2, "expert_hidden": 48,
         "experts_normalised": True, "router_loss": 0.01, "tied": False},
        ("Qwen3MoeConfig", {**QWEN, "norm_topk_prob": True, "tie_word_embeddings": True}),
        f"{ATTENTION},gate_proj,up_proj,down_proj"),
    # Not of its feed-forward parts: PEFT would leave out the dense layer's.
    "qwen3_moe-dense": (
        {"family": "qwen3_moe", "experts": 4, "experts_per_token": 2, "expert_hidden": 48,
         "expert_pattern": "de", "window": 16},
        ("Qwen3MoeConfig", {**QWEN, "norm_topk_prob": False, "mlp_only_layers": [1],
                            "output_router_logits": True}),
        ATTENTION),
    "olmoe": (
        {"family": "olmoe", "experts": 8, "experts_per_token": 2, "router_loss": 0.01,
         "qkv_clip": 2.0},
        ("OlmoeConfig", {**SMALL, "num_experts": 8, "norm_topk_prob": True, "clip_qkv": 1.5}),
        f"{ATTENTION},gate_proj,up_proj,down_proj"),
}
KEPT = ("num_hidden_layers", "num_experts_per_tok", "num_local_experts", "num_experts",
        "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers", "sliding_window", "clip_qkv",
        "output_router_logits", "tie_word_embeddings", "rms_norm_eps")

HEADS = ("model", "parameters", "loss at first", "after 6 rounds", "exported, apart",
         "imported, apart", "trained on, apart", "adapters", "adapters gain", "adapters, apart",
         "time")

# What is added to a [model] section that is good, and what the refusal must say.
REFUSED = [
    ("mixtral", {"experts_per_token": 5}, "experts_per_token is 5; it must be 1-4"),
    ("mixtral", {"experts_per_token": 0}, "experts_per_token is 0; it must be 1-4"),
    ("mixtral", {"experts": 0}, "experts is 0; it must be 1-1024"),
    ("mixtral", {"experts": 1025}, "experts must be a whole number from 0 to 1024"),
    ("mixtral", {"expert_hidden": 48}, "expert_hidden is not for family 'mixtral'"),
    ("mixtral", {"experts_normalised": True}, "experts_normalised is not for family 'mixtral'"),
    ("mixtral", {"qkv_clip": 1.0}, "qkv_clip is not for family 'mixtral'"),
    ("mixtral", {"lora_rank": 2, "lora_targets": "gate_proj"}, "has no 'gate_proj'"),
    ("olmoe", {"expert_pattern": "de"}, "expert_pattern is not for family 'olmoe'"),
    ("qwen3_moe", {"expert_pattern": "dd"}, "expert_pattern is 'dd'"),
    ("qwen3_moe", {"expert_pattern": "ex"}, "expert_pattern is 'ex'"),
    ("qwen3_moe", {"expert_pattern": "dee"}, "expert_pattern has 3 letters"),
    ("qwen3_moe", {"router_loss": -1.0}, "router_loss must be a number from 0"),
    ("llama", {"experts": 4, "experts_per_token": 2}, "experts is not for family 'llama'"),
    ("qwen3", {"router_loss": 0.01}, "router_loss is not for family 'qwen3'"),
    ("qwen2_moe", {}, "family must be"),
    (None, {"experts": 4}, "experts is not for kind 'gpt'"),
]


def section(**keys):
    lines = (f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return "[model]\n" + "\n".join(lines)


def model_section(family, **keys):
    """Of a family; of None it is kind "gpt", which has fewer keys."""
    if family is None:
        fewer = {key: SIZES[key] for key in ("layers", "heads", "width", "context", "vocabulary")}
        return section(kind="gpt", **{**fewer, **keys})
    return section(kind="llama", family=family, **{**SIZES, **keys})


def has_values_in_files(folder):
    """Whether a peer of this run's folder has a file without a name mapped, within its folder."""
    for path in glob.glob(os.path.join(folder, "peer-*", "pid")):
        peer = os.path.realpath(os.path.dirname(path))
        try:
            with open(path, encoding="utf-8") as source, \
                    open(f"/proc/{int(source.read())}/maps", encoding="utf-8") as maps:
                if any(peer in one and one.endswith("(deleted)\n") for one in maps):
                    return True
        except (OSError, ValueError):
            continue
    return False


class Check:
    """The programs, and a folder for all that they write."""

    def __init__(self, options, top):
        import torch
        import transformers
        self.torch, self.transformers, self.top = torch, transformers, top
        self.bin = os.path.abspath(options.bin)
        with open(options.text, "rb") as source:
            text = source.read(BYTES).decode("utf-8", "ignore").encode("utf-8")
        assert len(text) >= 20 * CONTEXT, f"{options.text} has {len(text)} bytes: too few"
        self.held_out = text[int(len(text) * (1 - HELD_OUT)):]
        self.text = self.at("text.txt")
        with open(self.text, "wb") as out:
            out.write(text)

    def at(self, name):
        return os.path.join(self.top, name)

    def atoll(self, *call):
        done = self.try_atoll(*call)
        assert done.returncode == 0, f"atoll {' '.join(call)}: {done.stdout}{done.stderr}"
        return done.stdout

    def try_atoll(self, *call):
        return subprocess.run([os.path.join(self.bin, "atoll"), *call], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)

    # -- runs

    def train(self, name, model, rounds=6, inner="", more="", rate=0.003):
        """The report of a run in the folder of this name, with all its losses beside it."""
        folder, config, output = self.at(name), self.at(name + ".toml"), self.at(name + ".log")
        with open(config, "w", encoding="utf-8") as out:
            out.write(RUN.format(rounds=rounds, model=model, data=self.text, held_out=HELD_OUT,
                                 rate=rate, inner=inner, more=more))
        self.atoll("config", "validate", config, "--for", "local")
        with open(output, "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [os.path.join(self.bin, "atoll"), "local", "--config", config, "--dir", folder,
                 "--json", folder + ".json"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            in_files, end = False, time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < end:
                in_files = in_files or has_values_in_files(folder)
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()
        with open(output, encoding="utf-8") as log:
            assert process.returncode == 0, f"{name}: {log.read()}"
        assert in_files == ("disk" in more), f"{name}: values in files: {in_files}"
        return self.report(folder)

    def report(self, folder):
        with open(folder + ".json", encoding="utf-8") as source:
            report = json.load(source)
        assert report["final_val_loss"] < report["initial_val_loss"], f"{folder}: {report}"
        told = json.loads(self.atoll("log", "verify", "--dir", folder))
        states = {one["state_digest"] for one in told["peers"]} | {report["state_digest"]}
        assert len(told["peers"]) == 2 and len(states) == 1, f"{folder}: the states: {told}"
        assert all(one["rounds_contributed"] == report["rounds"] for one in report["peers"]), report
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as source:
            rounds = [json.loads(line) for line in source]
        report["losses"] = [one[key] for one in rounds
                            for key in ("train/loss", "validation/loss") if one[key] is not None]
        return report

    def evaluate(self, folder, *more):
        told = json.loads(self.atoll("eval", "--dir", folder, "--json", *more))
        assert told["tokens"] == (len(self.held_out) - 1) // CONTEXT * CONTEXT, told
        return told["loss"]

    # -- what transformers says

    def load(self, folder):
        model, told = self.transformers.AutoModelForCausalLM.from_pretrained(
            folder, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
            assert not told[kind], f"{folder}: {kind}: {told[kind]}"
        return model.eval()

    def own_loss(self, model):
        """Without the balance loss, which transformers adds to what it calls the loss."""
        ids = self.torch.tensor(list(self.held_out))
        rows = (len(ids) - 1) // CONTEXT
        with self.torch.no_grad():
            logits = model(input_ids=ids[:rows * CONTEXT].view(rows, CONTEXT)).logits
        return float(self.torch.nn.functional.cross_entropy(
            logits.view(-1, logits.shape[-1]), ids[1:rows * CONTEXT + 1]))

    def apart(self, what, model, ours):
        gap = abs(self.own_loss(model) - ours)
        assert gap <= CLOSE, f"{what}: atoll eval says {ours}, transformers is {gap:.1e} apart"
        return gap

    def check_written(self, folder, model):
        ids = self.torch.tensor([list(PROMPT.encode("utf-8"))])
        made = model.generate(input_ids=ids, attention_mask=self.torch.ones_like(ids),
                              do_sample=False, max_new_tokens=WRITTEN, pad_token_id=0)
        theirs = bytes(made[0].tolist()).decode("utf-8", "replace")
        ours = json.loads(self.atoll("generate", "--dir", folder, "--prompt", PROMPT, "--tokens",
                                     str(WRITTEN), "--temperature", "0", "--json"))["text"]
        assert theirs in (ours, PROMPT + ours), f"{folder} writes {ours!r}, transformers {theirs!r}"
        assert made.shape[1] == ids.shape[1] + WRITTEN, made.shape

    # -- the parts of a line

    def trained(self, name, model):
        """Runs of the model, and what it is in transformers: the first report, and the gap."""
        report = self.train(name, model)
        checkpointed = self.train(name + "-checkpointed", model, inner="checkpointing = true")
        assert report["losses"] == checkpointed["losses"], \
            f"checkpointing: {report['losses']}, {checkpointed['losses']}"
        on_disk = self.train(name + "-on-disk", model, more=ON_DISK)
        assert report["state_digest"] == on_disk["state_digest"], \
            f"values on disk: {report['losses']}, {on_disk['losses']}"
        self.train(name + "-streaming", model, rounds=8, more=STREAMING)
        output = self.at(name + "-exported")
        self.atoll("export", "--dir", self.at(name), "--output", output)
        theirs = self.load(output)
        assert theirs.num_parameters() == report["parameters"], theirs.num_parameters()
        ours = self.evaluate(self.at(name))
        assert abs(ours - report["final_val_loss"]) <= CLOSE, (ours, report)
        gap = max(self.apart(output, theirs, ours),
                  self.apart(output, theirs, self.evaluate(output, "--data", self.text)))
        self.check_written(self.at(name), theirs)
        self.check_written(output, theirs)
        return report, gap

    def made(self, name, kind, keys):
        """A model that transformers has made, imported from both of its layouts: the folder, the
        imported folder, and the digest that `atoll import` has printed."""
        self.torch.manual_seed(1)
        config = getattr(self.transformers, kind)(**keys)
        model = self.transformers.AutoModelForCausalLM.from_config(config).eval()
        folder, fused = self.at(name + "-made"), self.at(name + "-fused")
        model.save_pretrained(folder)
        model.save_pretrained(fused, save_original_format=False, max_shard_size="150KB")
        assert len(glob.glob(os.path.join(fused, "*.safetensors"))) > 1, os.listdir(fused)
        imported = {}
        for one in (folder, fused):
            told = self.atoll("import", "--input", one, "--output", one + "-imported")
            imported[one], = re.findall(r'base_digest = "(\w+)"', told)
        assert imported[folder] == imported[fused], f"{name}: the two layouts differ: {imported}"
        return folder, folder + "-imported", imported[folder]

    def imported(self, name, folder, imported):
        """The gaps of the imported model, and of what a run makes of it."""
        theirs = self.load(folder)
        gap = max(self.apart(one, theirs, self.evaluate(one, "--data", self.text))
                  for one in (folder, imported))
        self.check_written(imported, theirs)
        with open(os.path.join(imported, "model.toml"), encoding="utf-8") as source:
            model = source.read()
        initial = os.path.join(imported, "model.safetensors")
        report = self.train(name + "-again", f'{model}\ninitial = "{initial}"', rounds=3)
        assert abs(report["initial_val_loss"] - self.own_loss(theirs)) <= CLOSE, report
        output = self.at(name + "-again-exported")
        self.atoll("export", "--dir", self.at(name + "-again"), "--output", output)
        again = self.load(output)
        for key in KEPT:
            before, after = (getattr(one.config, key, None) for one in (theirs, again))
            assert before == after, f"{output}: {key} was {before} and is {after}"
        self.check_written(output, again)
        return gap, self.apart(output, again, self.evaluate(self.at(name + "-again")))

    def adapted(self, name, folder, imported, digest, targets):
        """The gap of adapters on the imported model, how many there are, and what they gain."""
        import peft
        with open(os.path.join(imported, "model.toml"), encoding="utf-8") as source:
            model = source.read()
        base = os.path.join(imported, "model.safetensors")
        report = self.train(name + "-adapted", f'{model}\nlora_rank = 4\nbase = "{base}"\n'
                            f'base_digest = "{digest}"\nlora_targets = "{targets}"', rounds=3,
                            rate=0.01)
        output = self.at(name + "-adapter")
        self.atoll("export", "--dir", self.at(name + "-adapted"), "--output", output)
        with open(os.path.join(output, "adapter_config.json"), encoding="utf-8") as source:
            assert json.load(source)["base_model_name_or_path"] == folder
        model = peft.AutoPeftModelForCausalLM.from_pretrained(output).eval()
        gain = report["initial_val_loss"] - report["final_val_loss"]
        assert gain > 100 * CLOSE, f"{name}: adapters gain only {gain}"
        return self.apart(output, model, self.evaluate(self.at(name + "-adapted"))), report, gain

    def line(self, name):
        """The columns of its line. AssertionError: what is not as it must be."""
        began = time.monotonic()
        model, (kind, keys), targets = LINES[name]
        report, gap = self.trained(name, model_section(**model))
        folder, imported, digest = self.made(name, kind, keys)
        of_made, of_again = self.imported(name, folder, imported)
        of_adapted, adapters, gain = self.adapted(name, folder, imported, digest, targets)
        return [f"{report['parameters']:,}", f"{report['initial_val_loss']:.4f}",
                f"{report['final_val_loss']:.4f}", f"{gap:.1e}", f"{of_made:.1e}",
                f"{of_again:.1e}", f"{adapters['parameters']:,}", f"{gain:.4f}",
                f"{of_adapted:.1e}", f"{time.monotonic() - began:.0f} s"]

    def plain(self):
        """Kind "gpt" with its values in memory and on the disk."""
        model = model_section(None)
        reports = [self.train(f"gpt-{number}", model, more=more)
                   for number, more in enumerate(("", ON_DISK))]
        assert reports[0]["state_digest"] == reports[1]["state_digest"], reports
        return [f"{reports[0]['parameters']:,}", f"{reports[0]['initial_val_loss']:.4f}",
                f"{reports[0]['final_val_loss']:.4f}", "", "", "", "", "", "", ""]

    # -- what must be refused

    def refused(self, what, said, *call):
        """One line of its error. AssertionError: it was taken, or said something else."""
        done = self.try_atoll(*call)
        lines = done.stderr.strip().splitlines()
        assert done.returncode == 2, f"{what}: exit status {done.returncode}: {done.stderr}"
        assert len(lines) == 1 and said in lines[0], f"{what}: {done.stderr}"
        return lines[0].replace(self.top + os.sep, "")

    def refusals(self):
        """Prints what is said of each; returns how many were taken, or refused in other words."""
        print("\nrefused:", flush=True)
        failed = 0
        for refuse, *arguments in [*((self.refused_section, *one) for one in REFUSED),
                                   *((self.refused_folder, *one) for one in self.folders())]:
            try:
                print(refuse(*arguments), flush=True)
            except AssertionError as wrong:
                failed += 1
                print(f"FAILED: {wrong}", flush=True)
        return failed

    def refused_section(self, family, keys, said):
        """Of a [model] section that is good but for these keys."""
        good = {key: value for key, value in LINES.get(family, ({},))[0].items()
                if key != "family"}
        config = self.at("refused.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(RUN.format(rounds=1, model=model_section(family, **{**good, **keys}),
                                 data=self.text, held_out=HELD_OUT, rate=0.003, inner="", more=""))
        return self.refused(f"{family} with {keys}", said, "config", "validate", config)

    def refused_folder(self, name, make, said):
        """Of a folder that `make` writes."""
        folder = self.at("refused-" + name)
        make(folder)
        line = self.refused(name, said, "import", "--input", folder, "--output", folder + "-in")
        assert not os.path.exists(folder + "-in"), os.listdir(folder + "-in")
        return line

    def folders(self):
        """Names, what makes the folder, and what the refusal must say."""
        shared = {**SMALL, "num_experts": 4, "moe_intermediate_size": 48,
                  "shared_expert_intermediate_size": 48}
        return [("shared-experts", lambda folder: self.save("Qwen2MoeConfig", shared, folder),
                 "model_type is qwen2_moe"),
                ("noise", lambda folder: self.mixtral(folder, router_jitter_noise=0.1),
                 "router_jitter_noise is 0.1"),
                ("too-many", lambda folder: self.mixtral(folder, num_experts_per_tok=5),
                 "experts_per_token is 5; it must be 1-4"),
                ("lacks-an-expert", self.without_an_expert, "experts.3.w2.weight is missing")]

    def save(self, kind, keys, folder):
        config = getattr(self.transformers, kind)(**keys)
        self.transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)

    def mixtral(self, folder, **changes):
        """With changes of config.json that transformers itself need not bear."""
        self.save("MixtralConfig", LINES["mixtral"][1][1], folder)
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as source:
            config = {**json.load(source), **changes}
        with open(path, "w", encoding="utf-8") as out:
            json.dump(config, out)

    def without_an_expert(self, folder):
        import safetensors.torch
        self.mixtral(folder)
        path = os.path.join(folder, "model.safetensors")
        tensors = safetensors.torch.load_file(path)
        tensors.pop("model.layers.1.block_sparse_moe.experts.3.w2.weight")
        safetensors.torch.save_file(tensors, path, {"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help="the folder of atoll and atolld")
    parser.add_argument("--text", required=True, help="a file of text")
    parser.add_argument("--only", help="names of lines with commas between them, gpt and refusals")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        import peft  # noqa: F401
        import transformers
    except ImportError as missing:
        sys.exit(f"{missing}: call this with a Python that has PyTorch, transformers and PEFT")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    wanted = options.only.split(",") if options.only else [*LINES, "gpt", "refusals"]
    top, failed = tempfile.mkdtemp(prefix="atoll-mixtures-"), 0
    try:
        check = Check(options, top)
        print(" | ".join(HEADS), flush=True)
        for name in [one for one in (*LINES, "gpt") if one in wanted]:
            try:
                columns = check.plain() if name == "gpt" else check.line(name)
                print(" | ".join([name, *columns]), flush=True)
            except AssertionError as wrong:
                failed += 1
                print(f"{name} | FAILED: {wrong}", flush=True)
        if "refusals" in wanted:
            failed += check.refusals()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
