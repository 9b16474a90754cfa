"""The folder as a PyTorch model whose fp32 parameters a run trains."""

import inspect
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


def _read_base(folder: ModelFolder, dtype: Any, seed: int) -> Any:
    torch, transformers = need("torch"), need("transformers")
    auto = transformers.AutoModelForCausalLM
    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    named = {"dtype" if (major, minor) >= (4, 56) else "torch_dtype": dtype}
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


def build(folder: ModelFolder, spec: run_pb2.RunSpec) -> Any:
    """The model, on the CPU. All that is trained is fp32; a frozen base beneath adapters has the
    precision of the run's matrix products."""
    quiet()
    torch = need("torch")
    adapters = folder.is_adapter or spec.model.lora_rank > 0
    frozen = torch.bfloat16 if spec.inner.precision == "bf16" else torch.float32
    model = _read_base(folder, frozen if adapters else torch.float32, spec.seed)
    model.config.use_cache = False
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
    return model


def trained(model: Any) -> List[Any]:
    """(name, parameter), in the order of the manifest."""
    return [(name, one) for name, one in model.named_parameters() if one.requires_grad]


def vocabulary_of(model: Any) -> int:
    return int(model.get_input_embeddings().weight.shape[0])
