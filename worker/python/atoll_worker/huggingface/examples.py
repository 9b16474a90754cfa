"""One example of instruction data as tokens, and which of them count in the loss."""

from typing import Any, List, Tuple

import numpy as np

from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.documents import Record

Span = Tuple[int, int]


def example_of(record: Record, tokenizer: Any) -> "tuple[np.ndarray, np.ndarray]":
    """The ids, and for each whether the model is to learn to say it. WorkerFailure: the tokenizer
    has no chat template, or one whose text for the first messages is not how the whole begins."""
    if "messages" in record:
        return _talk(record["messages"], record.get("asked"), tokenizer)
    prompt = tokenizer(record["prompt"])["input_ids"]
    if prompt and prompt[-1] == tokenizer.eos_token_id:
        prompt = prompt[:-1]
    answer = tokenizer(record["completion"], add_special_tokens=False)["input_ids"]
    if tokenizer.eos_token_id is not None:
        answer = answer + [tokenizer.eos_token_id]
    counted = np.zeros(len(prompt) + len(answer), bool)
    counted[len(prompt):] = True
    return np.array(prompt + answer, np.int64), counted


def _render(tokenizer: Any, messages: List[dict], ask: bool) -> str:
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
    except Exception as error:  # jinja's own, and ValueError where there is no template
        raise WorkerFailure("the tokenizer's chat template does not take these messages: "
                            f"{' '.join(str(error).split())[:300]}") from None


def _answers(messages: List[dict], asked: object, whole: str, tokenizer: Any) -> List[Span]:
    """Where the assistant's words stand in the whole text."""
    first = asked if isinstance(asked, int) else 0
    spans: List[Span] = []
    for index in range(first, len(messages)):
        if messages[index]["role"] != "assistant":
            continue
        before = _render(tokenizer, messages[:index], True)
        after = whole if index + 1 == len(messages) else \
            _render(tokenizer, messages[:index + 1], False)
        if whole.startswith(after) and after.startswith(before):
            spans.append((len(before), len(after)))
        elif index + 1 == len(messages):
            raise WorkerFailure("the tokenizer's chat template renders the first messages in "
                                "another way than the whole, so it is not known which words are "
                                "the assistant's; give prompt and completion instead")
        # Some templates leave parts of earlier answers out; then the last one alone counts.
    return spans


def _talk(messages: List[dict], asked: object, tokenizer: Any) -> "tuple[np.ndarray, np.ndarray]":
    whole = _render(tokenizer, messages, False)
    spans = _answers(messages, asked, whole, tokenizer)
    coded = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    ids = np.array(coded["input_ids"], np.int64)
    counted = np.zeros(len(ids), bool)
    for place, (begin, end) in enumerate(coded["offset_mapping"]):
        counted[place] = any(first <= begin < last for first, last in spans) and end > begin
    return ids, counted
