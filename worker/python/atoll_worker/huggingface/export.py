"""A run's state as a folder of Hugging Face's: the model, or PEFT's adapters, and the tokenizer."""

import os
import shutil
import struct
import subprocess
from typing import BinaryIO, List, Optional, Tuple

import numpy as np

from atoll.v1 import run_pb2
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.folder import (MORE_TEMPLATES, ModelFolder,
                                             belongs_to_tokenizer)
from atoll_worker.huggingface.model import build, join_slices, load_tokenizer, trained
from atoll_worker.huggingface.needs import need
from atoll_worker.parameters import elements

LARGEST_SPEC = 64 << 20


def read_state(source: BinaryIO) -> Tuple[run_pb2.RunSpec, np.ndarray]:
    """What `atoll export` sends: the spec and its length, the number of values, the fp32 values."""
    def exactly(count: int) -> bytes:
        data = source.read(count)
        if len(data) != count:
            raise WorkerFailure(f"the state ends after {len(data)} of {count} bytes")
        return data
    size, = struct.unpack("<Q", exactly(8))
    if size > LARGEST_SPEC:
        raise WorkerFailure("standard input is not the state of a run; `atoll export` makes one")
    spec = run_pb2.RunSpec.FromString(exactly(size))
    count, = struct.unpack("<Q", exactly(8))
    return spec, np.frombuffer(exactly(4 * count), "<f4").astype(np.float32)


def write_folder(spec: run_pb2.RunSpec, values: np.ndarray, base: str, output: str,
                 dtype: str = "fp32", tokenizer: Optional[str] = None,
                 force: bool = False, lora_rank: int = 0) -> List[str]:
    """Writes the folder and returns the names of its files. `base` is the run's [model] path. Of
    adapters with slices the folder has the first `lora_rank` ranks; 0 means all."""
    from atoll_worker.torch import attach
    torch = need("torch")
    if spec.model.kind not in ("huggingface", "external"):
        raise WorkerFailure(f"the run's model is of kind '{spec.model.kind}'; `atoll export` "
                            "writes that without this worker")
    if os.path.isdir(output) and os.listdir(output) and not force:
        raise WorkerFailure(f"'{output}' is not empty; give another folder, or --force")
    _check_rank(spec.model, lora_rank)
    folder = ModelFolder(base)
    model = build(folder, spec, quantise=False)  # adapters are the same beside any base
    shapes = attach(model).shapes()
    if elements(shapes) != len(values):
        raise WorkerFailure(f"the run has {len(values)} parameters and the model of '{base}' "
                            f"{elements(shapes)}; name the run's own folder with --base")
    attach(model).write(values)
    if spec.model.lora_slice:
        model = join_slices(model, spec.model, lora_rank or spec.model.lora_rank)
    if dtype == "bf16":
        for _, one in trained(model):
            one.data = one.data.to(torch.bfloat16)
        if not (folder.is_adapter or spec.model.lora_rank):
            model = model.to(torch.bfloat16)
    model.config.use_cache = True
    made = output.rstrip("/") + ".new"
    shutil.rmtree(made, ignore_errors=True)
    only = {"selected_adapters": ["default"]} if spec.model.lora_slice else {}
    model.save_pretrained(made, safe_serialization=True, **only)
    load_tokenizer_unchanged(folder.tokenizer_folder(tokenizer), made)
    if os.path.isdir(output):
        shutil.rmtree(output)
    os.rename(made, output)
    return sorted(os.listdir(output))


def _check_rank(spec: run_pb2.ModelSpec, rank: int) -> None:
    """WorkerFailure: the run's adapters cannot be cut at this rank. 0 means all of them."""
    if rank in (0, spec.lora_rank):
        return
    if not spec.lora_slice:
        raise WorkerFailure(f"--lora-rank is {rank}, and the run's model has no adapters in slices "
                            "([model] lora_slice): leave it out")
    if rank < 0 or rank > spec.lora_rank or rank % spec.lora_slice:
        raise WorkerFailure(f"--lora-rank is {rank}; it must be a multiple of [model] lora_slice "
                            f"({spec.lora_slice}), at most [model] lora_rank ({spec.lora_rank})")


def load_tokenizer_unchanged(folder: str, output: str) -> None:
    """The tokenizer's files as they are; nothing that this library would write in another way."""
    load_tokenizer(folder)  # one that cannot be read is no use to who gets the folder
    for name in sorted(os.listdir(folder)):
        if belongs_to_tokenizer(name) and os.path.isfile(os.path.join(folder, name)):
            shutil.copy(os.path.join(folder, name), os.path.join(output, name))
    templates = os.path.join(folder, MORE_TEMPLATES)
    if os.path.isdir(templates):
        shutil.copytree(templates, os.path.join(output, MORE_TEMPLATES), dirs_exist_ok=True)


def through_atoll(program: str, dir_: str, output: str, options: List[str]) -> int:
    """`atoll export` replays the log and asks this program for the folder."""
    atoll = shutil.which("atoll")
    if atoll is None:
        raise WorkerFailure("atoll is not in PATH: it reads the run's folder; install the package "
                            "atoll, or add its folder to PATH")
    return subprocess.run([atoll, "export", "--dir", dir_, "--output", output, "--worker", program,
                           *options], check=False).returncode
