"""A model's folder, as transformers or PEFT writes it: what it is, and what names it."""

import hashlib
import json
import os
from typing import List, Optional

from atoll_worker.failure import WorkerFailure

PIECE = 1 << 22
MORE_TEMPLATES = "additional_chat_templates"  # where transformers puts those beside the usual one
OTHER_WEIGHTS = (".index.json", ".gguf", ".h5", ".msgpack", ".pth", ".pt", ".ckpt", ".bin",
                 ".onnx")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt")


def sha256(paths: List[str]) -> bytes:
    """Of the contents, one file after the other; of one file it is the file's own."""
    hashed = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as source:
            while piece := source.read(PIECE):
                hashed.update(piece)
    return hashed.digest()


def belongs_to_tokenizer(name: str) -> bool:
    """Whether a file of a model's folder belongs to its tokenizer, as atoll-worker tells it
    (worker/hub/output_folder.h)."""
    return name.startswith(("tokenizer", "vocab", "merges", "special_tokens", "added_tokens",
                            "chat_template", "spiece", "sentencepiece", "characters.json")) or \
        name.endswith((".tiktoken", ".spm", ".jinja", ".bpe", "tekken.json"))


class ModelFolder:
    """What lies at [model] path. With adapters in it, `base` is the folder beneath them."""

    def __init__(self, path: str):
        self.path = path
        if not path:
            raise WorkerFailure("[model] path is missing: the folder of the model, as transformers "
                                "writes it")
        if not os.path.isdir(path):
            raise WorkerFailure(f"[model] path '{path}': no such folder")
        self.is_adapter = os.path.isfile(os.path.join(path, "adapter_config.json"))
        self.base = self._base() if self.is_adapter else path
        if not os.path.isfile(os.path.join(self.base, "config.json")):
            raise WorkerFailure(f"[model] path '{self.base}': no config.json; it must be a folder "
                                "of save_pretrained, of a model or of PEFT's adapters")

    def _base(self) -> str:
        with open(os.path.join(self.path, "adapter_config.json"), encoding="utf-8") as source:
            base = json.load(source).get("base_model_name_or_path") or ""
        if os.path.isdir(base):
            return base
        beside = os.path.join(self.path, base)
        if base and os.path.isdir(beside):
            return beside
        raise WorkerFailure(f"[model] path '{self.path}' has adapters of '{base}', which is not "
                            "a folder here; write the model's folder into "
                            "base_model_name_or_path of adapter_config.json")

    def weights(self) -> List[str]:
        """The files of the weights; none: the model begins with random ones. WorkerFailure: there
        are weights in a form that is not read."""
        names = sorted(os.listdir(self.base))
        found = [one for one in names if one.endswith(".safetensors")] or \
            [one for one in names if one.startswith("pytorch_model") and one.endswith(".bin")]
        other = next((one for one in names if one.endswith(OTHER_WEIGHTS)), None)
        if not found and other:
            raise WorkerFailure(f"[model] path '{self.base}' has no model.safetensors but {other}, "
                                "which is not read; save the model with save_pretrained, or take "
                                "the file away to begin with random weights")
        return [os.path.join(self.base, one) for one in found]

    @property
    def has_weights(self) -> bool:
        return bool(self.weights())

    def vocabulary(self) -> int:
        """Of config.json; 0: it says none."""
        with open(os.path.join(self.base, "config.json"), encoding="utf-8") as source:
            config = json.load(source)
        said = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
        return said if isinstance(said, int) else 0

    def config_digest(self) -> bytes:
        return sha256([os.path.join(self.base, "config.json")])

    def tokenizer_folder(self, given: Optional[str] = None) -> str:
        for folder in ([given] if given else [self.path, self.base]):
            if any(os.path.isfile(os.path.join(folder, one)) for one in TOKENIZER_FILES):
                return folder
        raise WorkerFailure(f"'{given or self.base}' has no tokenizer (tokenizer.json); copy the "
                            "tokenizer's files beside the model")

    def tokenizer_files(self) -> List[str]:
        folder = self.tokenizer_folder()
        paths = (os.path.join(folder, one) for one in TOKENIZER_FILES)
        return [one for one in paths if os.path.isfile(one)]

    def tokenizer_digests(self) -> List[bytes]:
        """Of each file by which `atoll data prepare` may know the tokenizer."""
        return [sha256([one]) for one in self.tokenizer_files()
                if one.endswith(("tokenizer.json", "tokenizer.model"))]

    def tokenizer_digest(self) -> bytes:
        there = self.tokenizer_files()
        # tokenizer.json alone says everything; the others are older forms of it.
        return sha256(there[:1] if there[0].endswith("tokenizer.json") else there)
