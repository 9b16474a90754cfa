"""Makes the files of vectors/: two small tokenizers and what they make of some texts.

    python3 make_tokenizer_vectors.py [FOLDER]

An implementation of its own, slow and plain: it shares no code with worker/data. The merges are
learnt and applied as Sennrich et al. (2016) describe, and as GPT-2's encoder.py does it: the pair
of the lowest rank is joined everywhere in the word, left to right, then the next. The words are
cut by a scanner written by hand from the alternatives of the two patterns, by the general
categories of Python's unicodedata, not by a regular expression.
"""

import collections
import json
import pathlib
import sys
import unicodedata

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]
WHITE = set("\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
            + "".join(map(chr, range(0x2000, 0x200b))))


def letter(c):
    return unicodedata.category(c)[0] == "L"


def number(c):
    return unicodedata.category(c)[0] == "N"


def other(c):
    return c not in WHITE and not letter(c) and not number(c)


def run(text, i, test, most=None):
    """The end of the run of characters that pass the test, from i on."""
    j = i
    while j < len(text) and test(text[j]) and (most is None or j - i < most):
        j += 1
    return j


def spaces(text, i):
    """\\s+(?!\\S)|\\s+ : all but the last before a word, or all."""
    j = run(text, i, lambda c: c in WHITE)
    return j - 1 if j < len(text) and j - i > 1 else j


def next_gpt2(text, i):
    for ending in ENDINGS:
        if text.startswith(ending, i):
            return i + len(ending)
    start = i + 1 if text[i] == " " else i
    for test in (letter, number, other):
        end = run(text, start, test)
        if end > start:
            return end
    return spaces(text, i)


def fold(text):
    """Unicode's simple case folding, as far as the endings need it: the long s is an s."""
    return text.lower().replace("\u017f", "s")


def next_llama3(text, i):
    for ending in ENDINGS:
        if fold(text[i:i + len(ending)]) == ending:
            return i + len(ending)
    if text[i] not in "\r\n" and not letter(text[i]) and not number(text[i]):
        end = run(text, i + 1, letter)
        if end > i + 1:
            return end
    end = run(text, i, letter)
    if end > i:
        return end
    end = run(text, i, number, 3)
    if end > i:
        return end
    start = i + 1 if text[i] == " " else i
    end = run(text, start, other)
    if end > start:
        return run(text, end, lambda c: c in "\r\n")
    white = run(text, i, lambda c: c in WHITE)
    last = max((k for k in range(i, white) if text[k] in "\r\n"), default=None)
    if last is not None:
        return last + 1
    return spaces(text, i)


def words(text, step):
    i = 0
    while i < len(text):
        j = step(text, i)
        yield text[i:j]
        i = j


def alphabet():
    """GPT-2's character of each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(plain))
    return table


CHARACTER = alphabet()


def spelled(word):
    return [CHARACTER[byte] for byte in word.encode()]


def join(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i:i + 2]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


def learn(text, step, count):
    counts = collections.Counter(words(text, step))
    split = {word: spelled(word) for word in counts}
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, symbols in split.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            break
        merges.append(best)
        split = {word: join(symbols, best) for word, symbols in split.items()}
    return merges


def encode(text, step, ranks, ids, added, whole_words):
    # added tokens first, the longest that fits at the leftmost place
    for i in range(len(text)):
        found = max((a for a in added if text.startswith(a, i)), key=len, default=None)
        if found:
            return (encode(text[:i], step, ranks, ids, {}, whole_words) + [added[found]]
                    + encode(text[i + len(found):], step, ranks, ids, added, whole_words))
    out = []
    for word in words(text, step):
        symbols = spelled(word)
        if whole_words and "".join(symbols) in ids:
            out.append(ids["".join(symbols)])
            continue
        while len(symbols) > 1:
            pair = min(zip(symbols, symbols[1:]), key=lambda p: ranks.get(p, 1 << 30))
            if pair not in ranks:
                break
            symbols = join(symbols, pair)
        out += [ids[symbol] for symbol in symbols]
    return out


TEXTS = [
    "",
    " ",
    "a",
    "\n",
    "  \n \t\n  x",
    "Hello world",
    "hello  world   !",
    "I'll say it's THEY'RE we'd",
    "They'Ll IT'\u017f don\u2019t",
    "tabs\tand\u00a0hard\u3000spaces \u2003 wide",
    "1234567 12 3.14159 x2y \u00bd\u2167 \u0663\u0664",
    "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m",
    "\u65e5\u672c\u8a9e\u306e\u6587 \u0440\u0443\u0441\u0441\u043a\u0438\u0439",
    "\U0001f3dd\ufe0f island \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "e\u0301 combining \u0905\u0928\u0941",
    "line one\nline two\r\n\r\n  indented\n\n\n",
    "a.b,c;d!e?f -- (g) [h] {i} <j>",
    "'",
    "''s'",
    " 's",
    "x\u180ey\u200bz",
    "trailing spaces   ",
    "def f(x):\n    return x**2  # squared\n",
    "one<|endoftext|>two",
    "<|endoftext|><|end|><|endo",
    "the lagoon the reef the sea " * 3,
    "a" * 92,
    "\x00\x01\x1f\x7f control \x85next",
    "$%^&*()_+ == != ///\n\n",
    "\u0130stanbul \u01c5 \u2160",
]


def corpus():
    base = ("The sea was calm and the lagoon was still. When the tide turns, the reef shows; the "
            "island's ring isn't broken, and they'll say it's older than the sea. In 1835 and "
            "1842 Darwin wrote of atolls, 12 or 13 of them, caf\u00e9s there were none. "
            "\u65e5\u672c\u8a9e \u0440\u0438\u0444 and na\u00efve    spaces,\n\n    return "
            "the island(the, sea) == 100;\n")
    return base * 3 + " ".join(TEXTS)


def write(folder, name, step, pre_tokenizer, count, whole_words):
    merges = learn(corpus(), step, count)
    tokens = [CHARACTER[byte] for byte in sorted(CHARACTER, key=lambda b: CHARACTER[b])]
    tokens += ["".join(pair) for pair in merges if "".join(pair) not in tokens]
    if whole_words:
        tokens.append("".join(spelled(" spaces,")[:-1]) + "\u0120")  # no merge makes it
        tokens.append("".join(spelled(" indented")))
    ids = {}
    for token in tokens:
        ids.setdefault(token, len(ids))
    added = {"<|endoftext|>": len(ids), "<|end|>": len(ids) + 1}
    file = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": a, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for a, i in added.items()],
        "normalizer": None, "pre_tokenizer": pre_tokenizer, "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": whole_words,
                  "vocab": ids,
                  "merges": [list(pair) if whole_words else " ".join(pair) for pair in merges]},
    }
    (folder / f"{name}.json").write_text(json.dumps(file, ensure_ascii=False) + "\n")
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    with open(folder / f"{name}.vectors", "w") as out:
        for text in TEXTS:
            tokens = encode(text, step, ranks, ids, added, whole_words)
            out.write(json.dumps({"text": text, "tokens": tokens}) + "\n")


def main():
    here = pathlib.Path(__file__).resolve().parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "vectors"
    folder.mkdir(parents=True, exist_ok=True)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    write(folder, "gpt2", next_gpt2, {**byte_level, "use_regex": True}, 500, False)
    split = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated",
             "invert": False}
    sequence = {"type": "Sequence", "pretokenizers": [split, {**byte_level, "use_regex": False}]}
    write(folder, "llama3", next_llama3, sequence, 500, True)


if __name__ == "__main__":
    main()
