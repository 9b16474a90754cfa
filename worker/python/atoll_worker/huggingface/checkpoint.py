"""A checkpoint as a model, whole or not at all; and the digest of what then lies in memory.

transformers and PEFT give random values to what a checkpoint lacks and go on with a warning. Here a
tensor that is missing, unexpected or of another shape is refused by its name.
"""

import hashlib
from typing import Any, Iterable, List, Set, Tuple

from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.needs import need

SHOWN = 5         # names of tensors in a message
PIECE = 1 << 22   # values that are hashed at once
WRAPPERS = ("base_model.model.", "base_layer.")  # what PEFT puts into a name


def short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def read_errors() -> Any:
    """What the libraries throw at a file that they cannot read."""
    return (OSError, ValueError, KeyError, ImportError, RuntimeError,
            need("safetensors").SafetensorError)


def _named(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def _refuse(place: str, missing: Iterable[str], unexpected: Iterable[str],
            mismatched: Iterable[str]) -> None:
    """WorkerFailure, if there is any of them."""
    faults = [f"{what} {_named(names)}" for what, names in (
        ("it lacks", list(missing)), ("the model has no", list(unexpected)),
        ("of another shape:", list(mismatched))) if names]
    if faults:
        raise WorkerFailure(f"the checkpoint '{place}' is not that of its config: "
                            f"{'; '.join(faults)}. Nothing starts with random values in place of a "
                            "checkpoint's; fetch the folder anew, or mend config.json")


def _shapes(pair: Any) -> str:
    name, there, wanted = pair
    return f"{name} is {list(there)}, the model's {list(wanted)}"


def load(auto: Any, folder: str, **options: Any) -> Any:
    """The model of a folder with weights. WorkerFailure, by the names of the tensors: the files are
    not exactly those of the model that config.json describes."""
    try:
        model, told = auto.from_pretrained(folder, local_files_only=True, output_loading_info=True,
                                           ignore_mismatched_sizes=True, **options)
    except read_errors() as error:
        raise WorkerFailure(f"[model] path '{folder}': {short(error)}") from error
    _refuse(folder, told["missing_keys"], told["unexpected_keys"],
            [_shapes(one) for one in told["mismatched_keys"]])
    if told.get("error_msgs"):
        raise WorkerFailure(f"[model] path '{folder}': {'; '.join(told['error_msgs'])[:300]}")
    return model


def check_tied_head(model: Any, files: List[str], folder: str) -> None:
    """WorkerFailure: config.json ties the head to the embedding, and the files hold two tensors
    that differ. Which of the two then counts is a matter of transformers' version."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    names = [f"{name}.weight" for which in (head, embedding)
             for name, one in model.named_modules() if one is which]
    if len(names) != 2 or not getattr(model.config, "tie_word_embeddings", False):
        return
    stored = [_tensor_in(files, name) for name in names]
    if all(one is not None for one in stored) and not need("torch").equal(*stored):
        raise WorkerFailure(f"'{folder}': tensor {names[0]} differs from {names[1]}, and "
                            "config.json ties the two; set \"tie_word_embeddings\": false there to "
                            f"keep both, or take {names[0]} out of the file")


def _tensor_in(files: List[str], name: str) -> Any:
    """Of safetensors; None: none of the files has it."""
    for path in files:
        if not path.endswith(".safetensors"):
            continue
        with need("safetensors").safe_open(path, "pt") as source:
            if name in source.keys():
                return source.get_tensor(name)
    return None


def check_adapters(model: Any, folder: str) -> None:
    """WorkerFailure, by names: the folder's adapters are not those of its adapter_config.json."""
    peft = need("peft")
    there = peft.utils.load_peft_weights(folder, device="cpu")
    wanted = peft.get_peft_model_state_dict(model)
    names: Set[str] = set(there)
    _refuse(folder, set(wanted) - names, names - set(wanted),
            [_shapes((name, one.shape, wanted[name].shape)) for name, one in there.items()
             if name in wanted and one.shape != wanted[name].shape])


def digest_of(named: Iterable[Tuple[str, Any]]) -> bytes:
    """SHA-256 over the names, shapes and values of parameters as they lie in memory. The values are
    taken as fp32, so the digest is that of any precision that holds them exactly, however the files
    are cut; the names are those that the model has without adapters."""
    torch = need("torch")
    found = {}
    for name, one in named:
        for part in WRAPPERS:
            name = name.replace(part, "")
        found[name] = one.detach()
    hashed = hashlib.sha256(b"atoll.huggingface.base\n")
    for name in sorted(found):
        hashed.update(f"{name} {list(found[name].shape)}\n".encode())
        values = found[name].reshape(-1)
        for first in range(0, len(values), PIECE):
            piece = values[first:first + PIECE].to("cpu", torch.float32).contiguous()
            hashed.update(piece.numpy().astype("<f4", copy=False).tobytes())
    return hashed.digest()
