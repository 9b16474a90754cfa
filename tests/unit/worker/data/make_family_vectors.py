"""Makes vectors/families.json and vectors/families.vectors: the ids that Hugging Face's tokenizers
give for tokenizers of the shapes that open models have.

    pip install tokenizers    # 0.23 made what lies here
    python3 make_family_vectors.py [FOLDER]

A shape is what a model's published tokenizer.json says beside its vocabulary: normalizer,
pre-tokenizer, the model's flags, decoder, and how its added tokens are found. The vocabularies are
made here, of the text below; no model's own is used. families.json has the vocabularies once (what
their merges start from, and the merges: each makes the next token that is not there yet) and the
shapes. families.vectors has the ids of each shape and text, and, of text that a decoder changes,
what comes back; equal lines once. The shapes of single parts get every other text. No test runs
this.
"""

import json
import pathlib
import sys

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{END}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{END}"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = O200K.replace(END, "").replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
             "|[^\r\n" r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+" "[\r\n]*"
             r"|\s*" "[\r\n]+" r"|\s+(?!\S)|\s+")
LETTERS = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
           "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
           "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

CORPUS = [
    "The sea was calm and the lagoon was still. When the tide turns, the reef shows;",
    "the island's ring isn't broken, and they'll say it's older than the sea. IT'S OLD.",
    "In 1835 and 1842 Darwin wrote of atolls, 12 or 13 of them; 1835 12345 2024 3.14 cafés.",
    "def reef(sea, tide):\r\n    return the_sea == 100  # the  island\n\n    if (x): pass;\n\t\ty",
    "日本語の文 日本語 русский рифы на море العربية البحر 한국어 바다 ελληνικά θάλασσα हिन्दी",
    "naïve Ångström café    spaces,\n\n\n   the sea  the sea   the  island \U0001f3dd\ufe0f "
    "\U0001f468\u200d\U0001f469 e\u0301 \u1112\u1161\u11ab a\u00a0b 。，、 ... !!! ?? -- == "
    "[the](sea)",
]

TEXTS = [
    "", " ", "  ", "a", "\n", "  \n \t\n  x", "Hello world", "the sea", " the sea  was   calm ",
    "I'll say it's THEY'RE we'd", "They'Ll IT'\u017f don\u2019t isn't", "'", "''s'", " 's",
    "tabs\tand\u00a0hard\u3000spaces \u2003 wide\u00a0\u00a0 x", "1234567 12 3.14159 x2y 1835",
    "\u00bd\u2167 \u0663\u0664 \u4e8c\u5341 \u2460 12\u00bd",
    "cafe\u0301 caf\u00e9 A\u030angstro\u0308m",
    "\u65e5\u672c\u8a9e\u306e\u6587\u3002\u30ab\u30bf \u0440\u0438\u0444\u044b \u0420\u0418\u0424",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\u1100\u116e\u11a8",
    "\u0627\u0644\u0628\u062d\u0631 \u05d9\u05dd \u05e9\u05c1\u05b8\u200f, x",
    "\U0001f3dd\ufe0f island \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1ee!",
    "\u0905\u0928\u0941 \u0939\u093f\u0928\u094d\u0926\u0940 e\u0301\u0327", "\u180ey\u200bz\ufeff",
    "line one\nline two\r\n\r\n  indented\n\n\n", "a.b,c;d!e?f -- (g) [h] {i} <j>",
    "\u3002\uff0c\u3001\u2026 the\u2026sea\u3002the \u00abreef\u00bb \u201cI\u201d \u20ac5 $5 a+b",
    "def f(x):\n    return x**2  # squared\n\tif y:\r\n\t\tpass\n", "trailing spaces   ",
    "one<|endoftext|>two", " <|endoftext|> <|im_start|>user\n", "<|endoftext|><|endoftext|><|endo",
    "<s>the sea</s> <s> the", "the<mask>sea the <mask> sea  <mask>  x a<mask>", "a seaside side",
    "sea side-side side side", "\ufffd\ufffd x\ufffd", "<0x41><0xE2>", "<unk>x",
    "\u2581the\u2581sea \u2581 x", "ABCdef GHi aBC HTTPServer x86_64 the_sea",
    "\u0130stanbul \u01c5 \u2160 \ufb01n \uff21\uff22 \u00b2 \u1e9b\u0323 \u32ff "
    "a\u0301\u0898\u0316",
    "\x01\x1f\x7f\x85next",
    "$%^&*() == //\n\n", "sea.example/a?b=1&c=%20#x", "a" * 15 + " " + "ha" * 6,
    "\u00e9" * 4 + "\u65e5" * 4, "Hello, World!\r\nThe sea\u2028x\u2029y", "the   sea\t\t the",
]


def learn(split, size):
    """Merges over the corpus, cut by `split`, of text as it is."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                  initial_alphabet=[])
    tokenizer.train_from_iterator(CORPUS, trainer)
    return [tuple(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]


def symbols(first, merges):
    """What merges start from: `first`, and the characters that they join."""
    return list(dict.fromkeys([*first, *(c for m in merges for t in m for c in t)]))


def vocabulary(made):
    ids = {}
    for token in [*made["symbols"], *("".join(m) for m in made["merges"])]:
        ids.setdefault(token, len(ids))
    return ids


def unique(*lists):
    return list(dict.fromkeys(m for merges in lists for m in merges))


def vocabularies():
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    meta = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    joined = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    # Also merges over the edges of words: where text is cut must show in the ids.
    of_bytes = unique(learn(level, 350), learn(whole, 380))
    bytes_names = [f"<0x{i:02X}>" for i in range(256)]
    special = ["<unk>", "<s>", "</s>"]
    words = learn(meta, 230)
    crossing = unique(words, learn(joined, 210))
    pieces = [[t, 0.0] for t in special + bytes_names]
    for i, token in enumerate(vocabulary({"symbols": symbols(["\u2581"], words),
                                          "merges": words})):
        pieces.append([token, round(-2 - i / 16 - 2 / len(token), 2)])
    first = [*special, *bytes_names, "\u2581"]
    return {
        "bytes": {"symbols": alphabet, "merges": of_bytes},
        "characters": {"symbols": symbols(first, words), "merges": words},
        "crossing": {"symbols": symbols(first, crossing), "merges": crossing},
        "few": {"symbols": symbols(special, words), "merges": words},
        "pieces": {"vocab": pieces},
    }


def level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True,
            "use_regex": regex}


def seq(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def norm(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def digits(each=True):
    return {"type": "Digits", "individual_digits": each}


def metaspace(scheme="always", cut=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def added(content, special=True, **flags):
    return {"content": content, "normalized": not special, "special": special, **flags}


NFC = {"type": "NFC"}
PREPEND = {"type": "Prepend", "prepend": "\u2581"}
UNDERLINE = replace(" ", "\u2581")
LLAMA_DECODER = {"type": "Sequence", "decoders": [
    replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
GEMMA_DECODER = {"type": "Sequence", "decoders": [
    replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]}
DECODERS = {"ByteLevel": level(True), "Llama": LLAMA_DECODER, "Gemma": GEMMA_DECODER,
            "Metaspace": metaspace()}
BPE = {"type": "BPE"}
SPM = {**BPE, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
CHAT = [added("<|endoftext|>"), added("<|im_start|>")]
SENTENCE = [added("<unk>"), added("<s>"), added("</s>")]


def of_bytes(name, pre_tokenizer, normalizer=None, tokens=None, **model):
    return {"name": name, "of": "bytes", "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "decoder": "ByteLevel", "model": {**BPE, **model},
            "added_tokens": CHAT if tokens is None else tokens}


def of_text(name, normalizer, pre_tokenizer=None, decoder="Llama", of="characters", tokens=None,
            model=None):
    return {"name": name, "of": of, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "decoder": decoder, "model": SPM if model is None else model,
            "added_tokens": SENTENCE if tokens is None else tokens}


def families():
    llama2 = norm(PREPEND, UNDERLINE)
    spaces = [added(" " * n, False) for n in range(5, 1, -1)] + [added("\t\t", False)]
    plain = level(regex=False)
    return [
        {**of_bytes("GPT-2", level()), "model": {"continuing_subword_prefix": "",
                                        "end_of_word_suffix": ""},
         "added_tokens": [added("<|endoftext|>", True, normalized=True)]},
        of_text("Llama 2, Mistral v1, Mixtral, InternLM 2", llama2),
        of_bytes("Llama 3", seq(split(LLAMA3), plain), ignore_merges=True),
        of_bytes("Llama 4, gpt-oss", seq(split(O200K), plain)),
        of_text("Mistral v3", None, metaspace("first", False)),
        of_bytes("Mistral Nemo (Tekken)", seq(split(TEKKEN), plain), ignore_merges=True),
        of_bytes("Qwen 2, 2.5, 3", seq(split(QWEN2), plain), NFC),
        of_text("Gemma 2, 3", UNDERLINE, split(" ", "MergedWithPrevious", kind="String"),
                "Gemma", tokens=[*SENTENCE, added("\n\n", False, normalized=False),
                                       added("\u2581\u2581", False, normalized=False)]),
        of_bytes("Phi-2", level(), tokens=[*CHAT, *spaces]),
        of_text("Phi-3", llama2, tokens=[*SENTENCE, added("<|endoftext|>"),
                                         added("<|im_start|>", rstrip=True)]),
        of_bytes("Phi-4, OLMo 2, StableLM 2, GLM-4", seq(split(LLAMA3), plain)),
        of_bytes("SmolLM 2, StarCoder 2, Granite 3", seq(digits(), level())),
        of_bytes("GPT-NeoX, Pythia, OLMo, MPT", level(), NFC,
                 [*CHAT, added("   ", False), added("  ", False)]),
        of_bytes("Falcon", seq({"type": "Punctuation", "behavior": "Contiguous"}, level(),
                               digits(False), split("[0-9][0-9][0-9]"))),
        of_bytes("DeepSeek V2", seq(split("[\r\n]"), split(rf"\s?[{LETTERS}]+"),
                                    split(r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f"
                                          "\u3000-\u3002]+"),
                                    split(r"\s+$"),
                                    split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                                    digits(), plain)),
        of_bytes("DeepSeek V3", seq(split(r"\p{N}{1,3}"),
                                    split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                                    split(DEEPSEEK3), plain), norm()),
        of_text("Yi", norm(UNDERLINE), None, "Gemma"),
        of_bytes("BLOOM", seq(split(BLOOM), plain)),
        of_bytes("Command R", seq(digits(), level()), NFC),
    ]


def parts():
    """Each part in the forms that no family above has."""
    tests = [
        of_bytes("Digits and a prefix", seq(digits(), level(True))),
        of_bytes("Split and a prefix", seq(split(QWEN2), level(True, False))),
        of_bytes("ByteLevel, then Digits", seq(level(), digits())),
        of_bytes("no cuts", level(regex=False)),
        of_bytes("normalizer ByteLevel", split(r"\u0120?[a-z]+"), {"type": "ByteLevel"}),
        of_bytes("Whitespace", seq({"type": "Whitespace"}, level(regex=False))),
        of_bytes("WhitespaceSplit", seq({"type": "WhitespaceSplit"}, level(True, False))),
        of_bytes("BertPreTokenizer", seq({"type": "BertPreTokenizer"}, level(regex=False))),
        of_bytes("NFD, StripAccents, Lowercase", level(), norm(
            {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"})),
        of_bytes("NFKC, Strip", level(), norm(
            {"type": "NFKC"}, {"type": "Strip", "strip_left": True, "strip_right": True})),
        of_bytes("NFKD, Replace by a pattern", level(), norm(
            {"type": "NFKD"}, replace(r"\s{2,}|(?<=e)a", "_", "Regex"))),
        of_text("Metaspace", None, metaspace(), "Metaspace"),
        of_text("Metaspace of old", None, {"type": "Metaspace", "replacement": "\u2581",
                                           "add_prefix_space": True}),
        of_text("Metaspace, first, cut", None, seq(split("-", "Removed", kind="String"),
                                                   metaspace("first"))),
        of_text("merges over spaces", norm(UNDERLINE), of="crossing"),
        of_text("no byte fallback", norm(PREPEND, UNDERLINE), of="few",
                model={**SPM, "byte_fallback": False}),
        of_text("unknown ones apart", norm(PREPEND, UNDERLINE), of="few",
                model={**SPM, "byte_fallback": False, "fuse_unk": False}),
        of_text("Unigram", None, metaspace(), of="pieces",
                model={"type": "Unigram", "unk_id": 0, "byte_fallback": True}),
        of_text("Unigram without bytes", UNDERLINE, None, "Gemma", of="pieces",
                model={"type": "Unigram", "unk_id": 0, "byte_fallback": False}),
        of_bytes("added tokens", level(), {"type": "Lowercase"}, [
            *CHAT, added("<mask>", lstrip=True), added("Side", False, single_word=True),
            added("THE ", False), added("<s>", rstrip=True),
            added("</s>", lstrip=True, rstrip=True)]),
        of_text("added tokens, normalized", norm(PREPEND, UNDERLINE), tokens=[
            *SENTENCE, added("<mask>", False, lstrip=True), added("sea", False, normalized=False),
            added("side", False, single_word=True, normalized=False)]),
    ]
    for behavior in ("Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            tests.append(of_bytes(f"Split {behavior} {invert}", seq(
                split(r"[ \n.,]|\d", behavior, invert), level(regex=False))))
        tests.append(of_bytes(f"Punctuation {behavior}", seq(
            {"type": "Punctuation", "behavior": behavior}, level(regex=False))))
    return tests


def whole_file(shape, made):
    """The tokenizer.json of a shape: what the test puts together, too."""
    model = dict(shape["model"])
    if "vocab" in made:
        model["vocab"] = made["vocab"]
        ids = {token: i for i, (token, _) in enumerate(made["vocab"])}
    else:
        model["vocab"] = ids = vocabulary(made)
        model["merges"] = [" ".join(m) for m in made["merges"]]
    tokens, after = [], len(ids)
    for token in shape["added_tokens"]:
        number = ids.get(token["content"], after)
        after += number == after
        tokens.append({"id": number, "single_word": False, "lstrip": False, "rstrip": False,
                       **token})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": shape.get("normalizer"), "pre_tokenizer": shape.get("pre_tokenizer"),
            "post_processor": None, "decoder": DECODERS[shape["decoder"]],
            "model": model}


def main():
    here = pathlib.Path(__file__).resolve().parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "vectors"
    made = vocabularies()
    shapes = [{**s, "texts": [0, 1]} for s in families()]
    shapes += [{**s, "texts": [i % 2, 2]} for i, s in enumerate(parts())]
    for shape in shapes:
        for key in ("normalizer", "pre_tokenizer"):
            if shape[key] is None:
                del shape[key]
    known, lines, results = {}, [], []

    def number(line):
        if line not in known:
            known[line] = len(lines)
            lines.append(line)
        return known[line]

    for shape in shapes:
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(whole_file(shape, made[shape["of"]])))
        rows = []
        first, step = shape["texts"]
        for text in TEXTS[first::step]:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            back = tokenizer.decode(ids, skip_special_tokens=False)
            row = [number(" ".join(map(str, ids)))]
            rows.append(row if back == text else [*row, number(back)])
        results.append(rows)
    file = {"vocabularies": made, "decoders": DECODERS, "shapes": shapes, "texts": TEXTS}
    for name, what in ("json", file), ("vectors", {"lines": lines, "results": results}):
        text = json.dumps(what, ensure_ascii=False, separators=(",", ":"))
        (folder / f"families.{name}").write_text(text.replace('},{"name"', '},\n{"name"') + "\n")


if __name__ == "__main__":
    main()
