"""One record of JSON or Parquet: the text, or the example of instructions, that it holds.

The forms and the words are those of atoll-worker (worker/data/json_record.h, chat_record.h).
"""

import dataclasses
import json
from typing import Any, Dict, List, Optional, Union

SHOWN_KEYS = 5
SPEAKERS = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant",
            "chatgpt": "assistant", "model": "assistant", "system": "system"}


class BadRecord(Exception):
    """Why a record is not trained on, for a sentence that begins with its place."""


@dataclasses.dataclass
class Record:
    """An example of instructions: messages, or a prompt and a completion as they stand."""

    messages: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    asked: int = 0                     # the first message that may be learnt
    tools: Optional[List[Any]] = None  # for the template
    prompt: str = ""
    completion: str = ""
    # Keys of the record that hold something and are not trained on.
    unused: List[str] = dataclasses.field(default_factory=list)
    file: str = ""
    place: str = ""                    # in it: "line 3"


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    for kind, name in ((str, "a text"), (list, "a list"), (dict, "an object")):
        if isinstance(value, kind):
            return name
    return "a number"


def _keys_of(record: Dict[str, Any]) -> str:
    keys = [f'"{key}"' for key in sorted(record)]
    if len(keys) > SHOWN_KEYS:
        keys = keys[:SHOWN_KEYS] + ["..."]
    return ", ".join(keys) or "no key at all"


def _checked(messages: object, key: str) -> List[Dict[str, Any]]:
    if not isinstance(messages, list):
        raise BadRecord(f'has {_kind_of(messages)} under "{key}", not a list of messages')
    for number, one in enumerate(messages, 1):
        where = f'in message {number} of "{key}" '
        if not isinstance(one, dict):
            raise BadRecord(f"has {where}{_kind_of(one)}, not an object")
        if not isinstance(one.get("role"), str):
            raise BadRecord(f'has {where}no "role"; it has {_keys_of(one)}')
    return messages


def _share_gpt(record: Dict[str, Any]) -> List[Dict[str, Any]]:
    """ShareGPT's {"from", "value"} as messages."""
    turns = record["conversations"]
    if not isinstance(turns, list):
        raise BadRecord(f'has {_kind_of(turns)} under "conversations", not a list of messages')
    if turns and all(isinstance(one, dict) and "role" in one for one in turns):
        return _checked(turns, "conversations")
    messages = []
    for number, one in enumerate(turns, 1):
        where = f'in message {number} of "conversations" '
        if not isinstance(one, dict):
            raise BadRecord(f"has {where}{_kind_of(one)}, not an object")
        for key in ("from", "value"):
            if key not in one:
                raise BadRecord(f'has {where}no "{key}"; it has {_keys_of(one)}')
            if not isinstance(one[key], str):
                raise BadRecord(f'has {where}{_kind_of(one[key])} under "{key}", not a text')
        role = SPEAKERS.get(one["from"])
        if role is None:
            raise BadRecord(f'has {where}"from" "{one["from"]}", which is not known; known: human, '
                            "user, gpt, assistant, chatgpt, model, system")
        rest = {key: value for key, value in one.items() if key not in ("from", "value")}
        messages.append({"role": role, "content": one["value"], **rest})
    return messages


def _tools_of(record: Dict[str, Any]) -> Optional[List[Any]]:
    """The tools that a conversation may call, a list or the JSON of one."""
    tools = record.get("tools")
    if isinstance(tools, str) and tools.strip():
        try:
            tools = json.loads(tools)
        except ValueError:
            raise BadRecord('has a text under "tools" that is not JSON') from None
    if not tools:
        return None
    if not isinstance(tools, list):
        raise BadRecord(f'has {_kind_of(tools)} under "tools", not a list')
    return tools


def _with_system(record: Dict[str, Any], messages: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    system = record.get("system")
    if isinstance(system, str) and system and (not messages or messages[0]["role"] != "system"):
        return [{"role": "system", "content": system}] + messages
    return messages


def _example_of(record: Dict[str, Any]) -> Optional[Record]:
    """None: the record has no form of instructions."""
    used = {"tools", "system"}
    if "messages" in record:
        made = Record(_checked(record["messages"], "messages"), tools=_tools_of(record))
        used = {"messages", "tools"}
    elif "prompt" in record and "completion" in record:
        prompt, completion = record["prompt"], record["completion"]
        made, used = Record(tools=_tools_of(record)), {"prompt", "completion", "tools"}
        if isinstance(prompt, list) or isinstance(completion, list):
            made.messages = _checked(prompt, "prompt") + _checked(completion, "completion")
            made.asked = len(prompt)
        else:
            for key in ("prompt", "completion"):
                if not isinstance(record[key], str):
                    raise BadRecord(f'has {_kind_of(record[key])} under "{key}", not a text')
            made.prompt, made.completion = prompt, completion
            if not completion:
                raise BadRecord('has an empty "completion": nothing to learn')
            if made.tools:
                raise BadRecord('has "tools" beside a prompt that is a text, which no template '
                                "writes; give messages instead")
    elif "conversations" in record:
        made = Record(_with_system(record, _share_gpt(record)), tools=_tools_of(record))
        used.add("conversations")
    elif "instruction" in record and "output" in record and "text" not in record:
        made = Record(_with_system(record, _alpaca(record)))
        used = {"instruction", "input", "output", "system"}
    else:
        return None
    if not made.messages and not made.completion:
        raise BadRecord("has no message")
    made.unused = sorted(key for key, value in record.items() if key not in used and value)
    return made


def _alpaca(record: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Alpaca's instruction, input and output as a question and its answer."""
    for key in ("instruction", "input", "output"):
        if not isinstance(record.get(key) or "", str):
            raise BadRecord(f'has {_kind_of(record[key])} under "{key}", not a text')
    if record.get("history"):
        raise BadRecord('has "history", turns before the instruction; write them as "messages"')
    asked = record["instruction"] or ""
    if record.get("input"):
        asked += ("\n\n" if asked else "") + record["input"]
    return [{"role": "user", "content": asked},
            {"role": "assistant", "content": record["output"] or ""}]


def _follow(record: Any, path: str) -> Any:
    """What stands under a key, or under keys and indices with dots between; KeyError: nothing."""
    if path in record:
        return record[path]
    for part in path.split("."):
        if isinstance(record, list) and part.isdigit() and int(part) < len(record):
            record = record[int(part)]
        elif isinstance(record, dict):
            record = record[part]
        else:
            raise KeyError(part)
    return record


def document_of(record: Any, name: str) -> Union[str, Record]:
    """The text under the key `name`; without one an example of instructions, or the text under
    "text". BadRecord: there is none of it."""
    if isinstance(record, str):
        return record
    if not isinstance(record, dict):
        raise BadRecord(f"is {_kind_of(record)}, not a JSON object")
    example = None if name else _example_of(record)
    if example is not None:
        return example
    where = ('; name the key that holds the text as [data] field or --field ("a.b" for a nested '
             'one, "a.0.b" for one in a list)')
    try:
        text = _follow(record, name or "text")
    except KeyError:
        raise BadRecord(f'has no "{name or "text"}"; it has {_keys_of(record)}{where}') from None
    if not isinstance(text, str):
        nested = isinstance(text, (list, dict))
        raise BadRecord(f'has {_kind_of(text)} under "{name or "text"}", not a text'
                        f"{where if nested else ''}")
    return text
