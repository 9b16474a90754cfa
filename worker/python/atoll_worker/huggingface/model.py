"""The folder as a PyTorch model whose fp32 parameters a run trains."""

import inspect
import logging
import os
import sys
import warnings
from typing import Any, List

from atoll.v1 import run_pb2
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.checkpoint import (check_adapters, digest_of, load, read_errors,
                                                 short)
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.needs import need


# Words apart and together, white space of each kind, digits, accents in both normal forms, and
# scripts and signs that few vocabularies have whole.
PROBES = (
    "Hello world", "Hello  world\n\n\tindented,  twice. ", " a b  c   d", "x=1234567.89; // it's",
    "caf\u00e9 cafe\u0301 \ufb01ne", "\u4f60\u597d\uff0c\u4e16\u754c",
    "\u043f\u0440\u0438\u0432\u0435\u0442",
    "\u05e9\u05dc\u05d5\u05dd", "\U0001f469\u200d\U0001f680 \u2192 \u221e")


def quiet() -> None:
    """No bars of progress: every line of a worker's output is one of its daemon's log."""
    warnings.filterwarnings("ignore", category=FutureWarning)  # of libraries to each other
    need("transformers").utils.logging.disable_progress_bar()


def load_tokenizer(folder: str) -> Any:
    quiet()
    try:
        tokenizer = need("transformers").AutoTokenizer.from_pretrained(
            folder, local_files_only=True, use_fast=True)
    except (OSError, ValueError, KeyError) as error:
        raise WorkerFailure(f"the tokenizer of '{folder}': {short(error)}"
                            f"{_unknown_class(error)}") from error
    if not tokenizer.is_fast:
        raise WorkerFailure(f"the tokenizer of '{folder}' has no fast form (tokenizer.json)")
    _check_tokenizer(tokenizer, folder)
    tokenizer.model_max_length = 1 << 60  # rows are cut here; a document may be longer
    return tokenizer


def _unknown_class(error: Exception) -> str:
    """What to do where the folder was saved by a newer transformers, which names its own class."""
    if "Tokenizer class" not in str(error):
        return ""
    return (f"; transformers {need('transformers').__version__} does not know it: take a newer "
            "version, or set \"tokenizer_class\": \"PreTrainedTokenizerFast\" in "
            "tokenizer_config.json")


def _check_tokenizer(tokenizer: Any, folder: str) -> None:
    """WorkerFailure: this transformers makes other ids than the tokenizer's own file says. Some
    versions build a tokenizer anew by the name of its class, and lose spaces for instance."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.isfile(path):
        return
    library = need("tokenizers")
    own = library.Tokenizer.from_file(path)
    own.no_truncation()
    own.no_padding()
    for text in PROBES:
        here = tokenizer(text, add_special_tokens=False)["input_ids"]
        there = own.encode(text, add_special_tokens=False).ids
        if here != there:
            raise WorkerFailure(
                f"the tokenizer of '{folder}': transformers {need('transformers').__version__} "
                f"makes {here} of {text!r}, and tokenizers {library.__version__} {there} with the "
                "same tokenizer.json; take another version of transformers, or set "
                "\"tokenizer_class\": \"PreTrainedTokenizerFast\" in tokenizer_config.json, which "
                "takes the file as it is")


def _need_bitsandbytes() -> None:
    """On some CPUs its import would fetch a kernel from a hub through the package `kernels`, where
    that is installed, and complain where it is not. Nothing is downloaded here."""
    absent = object()
    kernels = sys.modules.get("kernels", absent)
    sys.modules["kernels"] = None  # type: ignore[assignment]
    logging.disable(logging.WARNING)
    try:
        need("bitsandbytes", "pip install bitsandbytes", "[model] base_bits = 4")
    finally:
        logging.disable(logging.NOTSET)
        if kernels is absent:
            del sys.modules["kernels"]
        else:
            sys.modules["kernels"] = kernels  # type: ignore[assignment]


def quantiser(folder: ModelFolder, spec: run_pb2.RunSpec, dtype: Any) -> Any:
    """What makes the base one of 4 bits a value as it is read: QLoRA's NF4 (Dettmers et al.,
    arXiv:2305.14314), whose products are of `dtype`. None: the base stays as it is."""
    bits = spec.model.base_bits
    if bits == 0:
        return None
    if bits != 4:
        raise WorkerFailure(f"[model] base_bits is {bits}; this worker knows 4")
    if not folder.is_adapter and spec.model.lora_rank == 0:
        raise WorkerFailure("[model] base_bits is for the base beneath adapters; set lora_rank")
    if not folder.has_weights:
        raise WorkerFailure(f"[model] base_bits = 4: '{folder.base}' has no weights to quantise")
    _need_bitsandbytes()
    need("accelerate", "pip install accelerate", "[model] base_bits = 4")
    return need("transformers").BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype)


def _keep_as_quantised(model: Any) -> None:
    """On CPUs with bf16 instructions bitsandbytes lays the weights out anew when a model is first
    evaluated, computes in bf16 from then on, and has no way back for gradients."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def _read_base(folder: ModelFolder, dtype: Any, seed: int, quantised: Any = None,
               device: str = "cpu") -> Any:
    torch, transformers = need("torch"), need("transformers")
    auto = transformers.AutoModelForCausalLM
    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    named = {"dtype" if (major, minor) >= (4, 56) else "torch_dtype": dtype}
    if quantised is not None:
        named.update(quantization_config=quantised, device_map={"": device})
    if folder.has_weights:
        return load(auto, folder.base, folder.weights(), **named)
    try:
        config = transformers.AutoConfig.from_pretrained(folder.base, local_files_only=True)
        torch.manual_seed(seed)
        return auto.from_config(config, **named)
    except read_errors() as error:
        raise WorkerFailure(f"[model] path '{folder.base}': {short(error)}") from error


def frozen_dtype(precision: str) -> Any:
    """Of a base beneath adapters: that of the run's matrix products."""
    torch = need("torch")
    return torch.bfloat16 if precision == "bf16" else torch.float32


def base_digest(folder: ModelFolder, precision: str, seed: int, model: Any = None) -> bytes:
    """Of the base beneath adapters, of which `model` has the frozen parameters. None: of a base
    that a run of this precision reads; one of 4 bits is known by what it was before."""
    if model is None:
        quiet()
        model = _read_base(folder, frozen_dtype(precision), seed)
        return digest_of(model.named_parameters())
    return digest_of((name, one) for name, one in model.named_parameters() if not one.requires_grad)


def _lora(peft: Any, spec: run_pb2.ModelSpec, rank: int) -> Any:
    """PEFT's description of adapters of this rank, scaled as the run's are."""
    targets: Any = list(spec.lora_targets) or None
    if targets == ["all_linear"]:
        targets = "all-linear"
    alpha = spec.lora_alpha * rank / spec.lora_rank
    return peft.LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, lora_dropout=0.0,
                           target_modules=targets)


def slice_names(spec: run_pb2.ModelSpec) -> List[str]:
    """What PEFT calls the slices of the run's adapters; it puts these into the tensors' names."""
    if spec.lora_slice >= spec.lora_rank or spec.lora_rank % spec.lora_slice != 0:
        raise WorkerFailure(f"[model] lora_slice is {spec.lora_slice}; it must divide [model] "
                            f"lora_rank ({spec.lora_rank}) and be less than that")
    return [f"slice{i}" for i in range(spec.lora_rank // spec.lora_slice)]


def _with_slices(peft: Any, model: Any, spec: run_pb2.ModelSpec) -> Any:
    """Each slice is an adapter of its own, and PEFT adds up the outputs of all (Fed-PLoRA,
    arXiv:2602.16936)."""
    names = slice_names(spec)
    made = peft.get_peft_model(model, _lora(peft, spec, spec.lora_slice), adapter_name=names[0])
    for name in names[1:]:
        made.add_adapter(name, _lora(peft, spec, spec.lora_slice))
    made.base_model.set_adapter(names)
    return made


def join_slices(model: Any, spec: run_pb2.ModelSpec, rank: int) -> Any:
    """Adds PEFT's adapter "default", which does what the slices of the first `rank` ranks do
    together, and makes it the only one that is active."""
    torch, peft = need("torch"), need("peft", "pip install 'atoll[hf]'")
    names = slice_names(spec)[:rank // spec.lora_slice]
    model.add_adapter("default", _lora(peft, spec, rank))
    with torch.no_grad():
        for module in model.modules():
            for which, dimension in (("lora_A", 0), ("lora_B", 1),
                                     ("lora_embedding_A", 0), ("lora_embedding_B", 1)):
                parts = getattr(module, which, None)
                if parts is None or "default" not in parts:
                    continue
                matrices = [getattr(parts[name], "weight", parts[name])
                            for name in (*names, "default")]
                matrices[-1].copy_(torch.cat(matrices[:-1], dimension))
    model.set_adapter("default")
    return model


def _with_adapters(model: Any, folder: ModelFolder, spec: run_pb2.ModelSpec) -> Any:
    peft = need("peft", "pip install 'atoll[hf]'")
    try:
        if folder.is_adapter and spec.lora_slice:
            raise WorkerFailure(f"[model] lora_slice is {spec.lora_slice}, and '{folder.path}' has "
                                "adapters already, which are whole: leave lora_slice out, or name "
                                "the base's folder as [model] path")
        if folder.is_adapter:
            model = peft.PeftModel.from_pretrained(model, folder.path, is_trainable=True)
            check_adapters(model, folder.path)
            told = next(iter(model.peft_config.values()))
            if spec.lora_rank and spec.lora_rank != getattr(told, "r", None):
                raise WorkerFailure(f"the adapters of '{folder.path}' have rank "
                                    f"{getattr(told, 'r', 'none')}; [model] lora_rank is "
                                    f"{spec.lora_rank}: leave it out, or make them equal")
            return model
        if spec.lora_slice:
            return _with_slices(peft, model, spec)
        return peft.get_peft_model(model, _lora(peft, spec, spec.lora_rank))
    except (TypeError, *read_errors()) as error:
        raise WorkerFailure(f"adapters: {short(error)} ([model] lora_targets)") from error


def set_checkpointing(model: Any, adapters: bool) -> None:
    """Layers are computed again in the backward pass, so that it needs less memory."""
    accepted = inspect.signature(model.gradient_checkpointing_enable).parameters
    if "gradient_checkpointing_kwargs" in accepted:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_enable()
    if adapters:
        model.enable_input_require_grads()


def build(folder: ModelFolder, spec: run_pb2.RunSpec, device: str = "cpu",
          quantise: bool = True) -> Any:
    """The model, on the device. All that is trained is fp32; a frozen base beneath adapters has the
    precision of the run's matrix products, or with `quantise` as few bits as the run says."""
    quiet()
    torch = need("torch")
    adapters = folder.is_adapter or spec.model.lora_rank > 0
    frozen = frozen_dtype(spec.inner.precision)
    quantised = quantiser(folder, spec, frozen) if quantise else None
    model = _read_base(folder, frozen if adapters else torch.float32, spec.seed, quantised, device)
    model.config.use_cache = False
    if quantised is not None:  # freezes all, and makes norms and embeddings fp32
        model = need("peft", "pip install 'atoll[hf]'").prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=False)
        _keep_as_quantised(model)
    if adapters:
        torch.manual_seed(spec.seed)
        model = _with_adapters(model, folder, spec.model)
        for _, parameter in trained(model):
            parameter.data = parameter.data.float()
    if spec.inner.checkpointing:
        set_checkpointing(model, adapters)
    return model if quantised is not None else model.to(device)  # the former is there already


def trained(model: Any) -> List[Any]:
    """(name, parameter), in the order of the manifest."""
    return [(name, one) for name, one in model.named_parameters() if one.requires_grad]


def vocabulary_of(model: Any) -> int:
    return int(model.get_input_embeddings().weight.shape[0])
