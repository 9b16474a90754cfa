"""A model's folder, as transformers or PEFT writes it: what it is, and what names it."""

import hashlib
import json
import os
from typing import List, Optional

from atoll_worker.failure import WorkerFailure

PIECE = 1 << 22
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt")


def sha256(paths: List[str]) -> bytes:
    """Of the contents, one file after the other; of one file it is the file's own."""
    hashed = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as source:
            while piece := source.read(PIECE):
                hashed.update(piece)
    return hashed.digest()


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
        raise WorkerFailure(f"[model] path '{self.path}' has adapters of '{base}', which is no "
                            "folder here; write the model's folder into "
                            "base_model_name_or_path of adapter_config.json")

    def _weights(self) -> List[str]:
        names = sorted(os.listdir(self.base))
        found = [one for one in names if one.endswith(".safetensors")] or \
            [one for one in names if one.startswith("pytorch_model") and one.endswith(".bin")]
        return [os.path.join(self.base, one) for one in found]

    @property
    def has_weights(self) -> bool:
        return bool(self._weights())

    def config_digest(self) -> bytes:
        return sha256([os.path.join(self.base, "config.json")])

    def base_digest(self) -> bytes:
        """Of the files of the weights, in the order of their names."""
        return sha256(self._weights())

    def tokenizer_folder(self, given: Optional[str] = None) -> str:
        for folder in ([given] if given else [self.path, self.base]):
            if any(os.path.isfile(os.path.join(folder, one)) for one in TOKENIZER_FILES):
                return folder
        raise WorkerFailure(f"'{given or self.base}' has no tokenizer (tokenizer.json); copy the "
                            "tokenizer's files beside the model")

    def tokenizer_digest(self) -> bytes:
        folder = self.tokenizer_folder()
        paths = (os.path.join(folder, one) for one in TOKENIZER_FILES)
        there = [one for one in paths if os.path.isfile(one)]
        # tokenizer.json alone says everything; the others are older forms of it.
        return sha256(there[:1] if there[0].endswith("tokenizer.json") else there)
