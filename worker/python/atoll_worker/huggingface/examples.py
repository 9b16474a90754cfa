"""Examples of instruction data as tokens, and which of them count in the loss.

Every key and turn of a conversation is written by the tokenizer's template, counted, or a reason to
refuse the record. An answer that the template writes in another way once the conversation goes on
(some leave out what was thought) is an example of its own that ends there: as the model says it.
"""

from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from atoll_worker.huggingface.records import BadRecord, Record
from atoll_worker.huggingface.tokens import counted

Example = Tuple[np.ndarray, np.ndarray]  # ids, and for each whether the model is to learn to say it
Span = Tuple[int, int]
CALLS = ("tool_calls", "function_call", "tools")  # keys without which answers mean something else


class Told:
    """What an owner should know of the conversations: counts, each with its first place."""

    def __init__(self) -> None:
        self._counts: "Counter[str]" = Counter()
        self._first: Dict[str, str] = {}

    def add(self, what: str, record: Record) -> None:
        self._counts[what] += 1
        self._first.setdefault(what, f"{record.file}: {record.place}")

    def notes(self) -> List[str]:
        return [f"in {counted(count, 'record')} (first {self._first[what]}) {what}"
                for what, count in sorted(self._counts.items())]


def examples_of(record: Record, tokenizer: Any, told: Told) -> List[Example]:
    """One example, or several where the template writes earlier answers in another way. BadRecord:
    the template does not take the record, or leaves out what its answers hang on."""
    for key in record.unused:
        told.add(f'"{key}" is not trained on', record)
    if record.messages:
        return _Talk(record, tokenizer, told).examples()
    prompt = tokenizer(record.prompt)["input_ids"]
    if prompt and prompt[-1] == tokenizer.eos_token_id:
        prompt = prompt[:-1]
    answer = tokenizer(record.completion, add_special_tokens=False)["input_ids"]
    if tokenizer.eos_token_id is not None:
        answer = answer + [tokenizer.eos_token_id]
    learnt = np.zeros(len(prompt) + len(answer), bool)
    learnt[len(prompt):] = True
    return [(np.array(prompt + answer, np.int64), learnt)]


def _blank(content: object) -> bool:
    return not content or (isinstance(content, str) and not content.strip())


class _Talk:
    """One conversation under the tokenizer's template."""

    def __init__(self, record: Record, tokenizer: Any, told: Told):
        self._record, self._tokenizer, self._told = record, tokenizer, told
        self._messages = [{key: value for key, value in one.items() if key != "weight"}
                          for one in record.messages]
        self._whole = self._render(self._messages, False)
        self._used = self._check_keys()

    def _render(self, messages: List[Dict[str, Any]], ask: bool, tools: bool = True) -> str:
        more = {"tools": self._record.tools} if tools and self._record.tools else {}
        try:
            return str(self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=ask, **more))
        except Exception as error:  # jinja's own, and ValueError where there is no template
            raise BadRecord("is not taken by the tokenizer's chat template: "
                            f"{' '.join(str(error).split())[:300]}") from None

    def _check_keys(self) -> List[str]:
        """The keys beside role and content that the template writes."""
        if self._record.tools and self._render(self._messages, False, False) == self._whole:
            raise BadRecord('has "tools", which the tokenizer\'s chat template does not write')
        used = []
        keys = {key for one in self._messages for key, value in one.items()
                if value and key not in ("role", "content")}
        for key in sorted(keys):
            without = [{name: value for name, value in one.items() if name != key}
                       for one in self._messages]
            try:
                same = self._render(without, False) == self._whole
            except BadRecord:
                same = False
            if not same:
                used.append(key)
            elif key in CALLS:
                raise BadRecord(f'has "{key}" in a message, which the tokenizer\'s chat template '
                                "does not write")
            else:
                self._told.add(f'the template does not write "{key}" of a message', self._record)
        return used

    def _learnt(self) -> List[int]:
        """The numbers of the answers that are to be learnt."""
        numbers = []
        for index, one in enumerate(self._messages):
            weight = self._record.messages[index].get("weight", 1)
            if weight not in (0, 1):
                raise BadRecord(f"has in message {index + 1} the weight {weight}; it must be 0 or "
                                "1")
            if one["role"] != "assistant" or index < self._record.asked or not weight:
                continue
            if _blank(one.get("content")) and not any(one.get(key) for key in self._used):
                raise BadRecord(f"has an empty answer in message {index + 1}: nothing to learn")
            numbers.append(index)
        if not numbers:
            raise BadRecord('has no message of the role "assistant": nothing to learn')
        return numbers

    def _span(self, index: int, text: str) -> Optional[Span]:
        """Where the answer stands in `text`; None: not as it was said."""
        before = self._render(self._messages[:index], True)
        after = self._render(self._messages[:index + 1], False)
        return (len(before), len(after)) if text.startswith(after) and \
            after.startswith(before) else None

    def examples(self) -> List[Example]:
        left, made, texts = self._learnt(), [], []
        text, end = self._whole, len(self._messages)
        while left:
            spans = {index: self._span(index, text) for index in left}
            if spans[left[-1]] is None and left[-1] + 1 == end:
                raise BadRecord("is written by the tokenizer's chat template in another way as it "
                                "grows, so it is not known which words are the assistant's; give "
                                "prompt and completion instead")
            found = [span for span in spans.values() if span]
            if found:
                made.append(self._tokens(text, found))
                texts.append(text)
            left = [index for index in left if spans[index] is None]
            if left:
                end = left[-1] + 1
                text = self._render(self._messages[:end], False)
        if len(made) > 1:
            self._told.add("the template writes an answer in another way once the conversation "
                           "goes on, so they are several rows each", self._record)
        self._look_for_turns(texts)
        return made

    def _look_for_turns(self, texts: List[str]) -> None:
        for one in self._messages:
            content = one.get("content")
            if isinstance(content, str) and not any(content.strip() in text for text in texts):
                self._told.add("the template does not write a turn as it stands", self._record)
                return

    def _tokens(self, text: str, spans: List[Span]) -> Example:
        coded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = np.array(coded["input_ids"], np.int64)
        learnt = np.zeros(len(ids), bool)
        for place, (begin, end) in enumerate(coded["offset_mapping"]):
            learnt[place] = any(first <= begin < last for first, last in spans) and end > begin
        return ids, learnt
