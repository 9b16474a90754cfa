"""A checkpoint as a model, whole or not at all; and the digest of what then lies in memory.

transformers and PEFT give random values to what a checkpoint lacks and go on with a warning. Here a
tensor that is missing, unexpected or of another shape is refused by its name.
"""

import hashlib
import pickle
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


def _mismatched(told: Any, model: Any, files: List[str]) -> List[str]:
    """Some versions of transformers tell a name with both shapes, others the name alone."""
    found = []
    for one in told["mismatched_keys"]:
        if not isinstance(one, str):
            found.append(_shapes(one))
            continue
        there, wanted = _tensor_in(files, one), model.state_dict().get(one)
        known = there is not None and wanted is not None
        found.append(_shapes((one, there.shape, wanted.shape)) if known else one)
    return found


def load(auto: Any, folder: str, files: List[str], **options: Any) -> Any:
    """The model of a folder, whose weights are in these files. WorkerFailure, by the names of the
    tensors: the files are not exactly those of the model that config.json describes."""
    try:
        model, told = auto.from_pretrained(folder, local_files_only=True, output_loading_info=True,
                                           ignore_mismatched_sizes=True, **options)
    except (pickle.UnpicklingError, EOFError) as error:
        raise WorkerFailure(f"[model] path '{folder}': pytorch_model.bin is damaged, or holds "
                            "objects that are not tensors, which are not read; fetch it anew, or "
                            "save the model as safetensors") from error
    except read_errors() as error:
        raise WorkerFailure(f"[model] path '{folder}': {short(error)}") from error
    found = _read_tied_head(model, files, folder)
    # Some versions of transformers leave a parameter without any memory and call it not missing.
    empty = {name for name, one in model.named_parameters() if one.is_meta}
    _refuse(folder, (set(told["missing_keys"]) | empty) - found, told["unexpected_keys"],
            _mismatched(told, model, files))
    if told.get("error_msgs"):
        raise WorkerFailure(f"[model] path '{folder}': {'; '.join(told['error_msgs'])[:300]}")
    return model


def _read_tied_head(model: Any, files: List[str], folder: str) -> Set[str]:
    """If config.json ties the head to the embedding, an embedding that is stored as the head alone
    gets its values, and its name is returned. WorkerFailure: the files hold both tensors, and they
    differ. In both cases it depends on transformers' version what the embedding would be."""
    torch = need("torch")
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    names = [f"{name}.weight" for which in (head, embedding)
             for name, one in model.named_modules() if one is which]
    if len(names) != 2 or not getattr(model.config, "tie_word_embeddings", False):
        return set()
    stored_head, stored = (_tensor_in(files, name) for name in names)
    if stored_head is None:
        return set()
    if stored is not None:
        if torch.equal(stored_head, stored):
            return set()
        raise WorkerFailure(f"'{folder}': tensor {names[0]} differs from {names[1]}, and "
                            "config.json ties the two; set \"tie_word_embeddings\": false there to "
                            f"keep both, or take {names[0]} out of the file")
    weight = embedding.weight
    if stored_head.shape != weight.shape:
        return set()
    device = next((one.device for one in model.parameters() if not one.is_meta), "cpu")
    embedding.weight = torch.nn.Parameter(stored_head.to(device, weight.dtype, copy=True),
                                          requires_grad=weight.requires_grad)
    model.tie_weights()
    return {names[1]}


def _tensor_in(files: List[str], name: str) -> Any:
    """None: none of the files has it."""
    for path in files:
        if not path.endswith(".safetensors"):
            tensors = _pickled(path)
            if name in tensors:
                return tensors[name]
            continue
        with need("safetensors").safe_open(path, "pt") as source:
            if name in source.keys():
                return source.get_tensor(name)
    return None


def _pickled(path: str) -> Any:
    """The tensors of a pytorch_model.bin, by name; an object of another kind is refused. They are
    mapped, which costs no memory, unless the file is of the form that PyTorch wrote before 1.6."""
    torch = need("torch")
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        return torch.load(path, map_location="cpu", weights_only=True)


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
