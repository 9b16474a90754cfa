"""A tokenizer of characters, which stands for one of transformers' where that is not installed."""


class Characters:
    """A token a character; 0 ends a text, 1 is unknown. Its template writes role and content."""

    eos_token_id, unk_token_id = 0, 1

    def __len__(self):
        return 256

    def convert_tokens_to_ids(self, token):
        return {"<sep>": 5}.get(token, 1)

    def __call__(self, text, add_special_tokens=True, return_offsets_mapping=False):
        if isinstance(text, list):
            return {"input_ids": [self(one)["input_ids"] for one in text]}
        out = {"input_ids": [ord(one) for one in text]}
        if return_offsets_mapping:
            out["offset_mapping"] = [(place, place + 1) for place in range(len(text))]
        return out

    def apply_chat_template(self, messages, tokenize, add_generation_prompt, tools=None):
        text = "".join(f"{one['role'][0]}:{one['content']};" for one in messages)
        return text + ("a:" if add_generation_prompt else "")
