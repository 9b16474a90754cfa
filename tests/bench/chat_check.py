"""Fine-tunes a tiny chat model with configs/lora-chat.toml and asks it through PEFT.

    ATOLL_SOURCE=. ATOLL_BIN=build/release/bin PYTHON tests/bench/chat_check.py

PYTHON is one that has PyTorch, transformers and PEFT; no model and no text is downloaded. Four
parties teach the model that every answer is "yes"; the exported adapter is loaded by PEFT, and
what transformers makes of the template's prompt is printed beside what `atoll generate` does.
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import chat_test  # noqa: E402

sys.path.pop(0)  # the tests' own safetensors.py is not the library's
sys.modules.pop("safetensors")

PROMPT = "<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n"


class AdapterInPeft(chat_test.ChatTest):

    test_parties_teach_a_model_to_answer = None  # is a ctest of its own

    def ask_peft(self, questions):
        import peft
        import transformers
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=self.at("model/tokenizer.json"), eos_token="<|im_end|>")
        model = transformers.AutoModelForCausalLM.from_pretrained(self.at("model"))
        model = peft.PeftModel.from_pretrained(model, self.at("adapter"))
        for asked in questions:
            ids = tokenizer(PROMPT.format(asked=asked), return_tensors="pt",
                            add_special_tokens=False)
            ids.pop("token_type_ids", None)
            made = model.generate(**ids, do_sample=False, max_new_tokens=8, pad_token_id=0,
                                  eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"))
            yield tokenizer.decode(made[0, ids["input_ids"].shape[1]:])

    def test_peft_takes_the_adapter(self):
        config = self.config()
        for party in range(1, 5):
            self.write(f"party-{party}.jsonl", self.conversations(party))
        self.train(config)
        self.check_adapter()
        questions = ("abc", "hgf edc", "bad cab")
        for asked, answer in zip(questions, self.ask_peft(questions)):
            ours = self.answer(asked, "--template", "chatml")
            print(f"{asked}: transformers with PEFT {answer!r}, atoll generate {ours!r}")
            self.assertEqual("yes<|im_end|>", answer)
            self.assertEqual("yes", ours)


if __name__ == "__main__":
    unittest.main()
