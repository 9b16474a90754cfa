"""The folder as a PyTorch model whose fp32 parameters a run trains."""

import inspect
import logging
import sys
import warnings
from typing import Any, List

from atoll.v1 import run_pb2
from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.folder import ModelFolder
from atoll_worker.huggingface.needs import need


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
        raise WorkerFailure(f"the tokenizer of '{folder}': {_short(error)}") from error
    if not tokenizer.is_fast:
        raise WorkerFailure(f"the tokenizer of '{folder}' has no fast form (tokenizer.json)")
    tokenizer.model_max_length = 1 << 60  # rows are cut here; a document may be longer
    return tokenizer


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


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
        raise WorkerFailure("[model] base_bits is of a base beneath adapters; set lora_rank")
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
    try:
        if folder.has_weights:
            return auto.from_pretrained(folder.base, local_files_only=True, **named)
        config = transformers.AutoConfig.from_pretrained(folder.base, local_files_only=True)
        torch.manual_seed(seed)
        return auto.from_config(config, **named)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise WorkerFailure(f"[model] path '{folder.base}': {_short(error)}") from error


def _with_adapters(model: Any, folder: ModelFolder, spec: run_pb2.ModelSpec) -> Any:
    peft = need("peft", "pip install 'atoll-worker[hf]'")
    try:
        if folder.is_adapter:
            model = peft.PeftModel.from_pretrained(model, folder.path, is_trainable=True)
            told = next(iter(model.peft_config.values()))
            if spec.lora_rank and spec.lora_rank != getattr(told, "r", None):
                raise WorkerFailure(f"the adapters of '{folder.path}' have rank "
                                    f"{getattr(told, 'r', 'none')}; [model] lora_rank is "
                                    f"{spec.lora_rank}: leave it out, or make them equal")
            return model
        targets: Any = list(spec.lora_targets) or None
        if targets == ["all_linear"]:
            targets = "all-linear"
        return peft.get_peft_model(model, peft.LoraConfig(
            task_type="CAUSAL_LM", r=spec.lora_rank, lora_alpha=spec.lora_alpha,
            lora_dropout=0.0, target_modules=targets))
    except (ValueError, KeyError, TypeError) as error:
        raise WorkerFailure(f"adapters: {_short(error)} ([model] lora_targets)") from error


def build(folder: ModelFolder, spec: run_pb2.RunSpec, device: str = "cpu",
          quantise: bool = True) -> Any:
    """The model, on the device. All that is trained is fp32; a frozen base beneath adapters has the
    precision of the run's matrix products, or with `quantise` as few bits as the run says."""
    quiet()
    torch = need("torch")
    adapters = folder.is_adapter or spec.model.lora_rank > 0
    frozen = torch.bfloat16 if spec.inner.precision == "bf16" else torch.float32
    quantised = quantiser(folder, spec, frozen) if quantise else None
    model = _read_base(folder, frozen if adapters else torch.float32, spec.seed, quantised, device)
    model.config.use_cache = False
    if quantised is not None:  # freezes all, and makes norms and embeddings fp32
        model = need("peft", "pip install 'atoll-worker[hf]'").prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=False)
        _keep_as_quantised(model)
    if adapters:
        torch.manual_seed(spec.seed)
        model = _with_adapters(model, folder, spec.model)
        for _, parameter in trained(model):
            parameter.data = parameter.data.float()
    if spec.inner.checkpointing:
        accepted = inspect.signature(model.gradient_checkpointing_enable).parameters
        if "gradient_checkpointing_kwargs" in accepted:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        else:
            model.gradient_checkpointing_enable()
        if adapters:
            model.enable_input_require_grads()
    return model if quantised is not None else model.to(device)  # the former is there already


def trained(model: Any) -> List[Any]:
    """(name, parameter), in the order of the manifest."""
    return [(name, one) for name, one in model.named_parameters() if one.requires_grad]


def vocabulary_of(model: Any) -> int:
    return int(model.get_input_embeddings().weight.shape[0])
