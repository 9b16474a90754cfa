"""The language of comments in headers: what a regular expression can tell of a clipped sentence.

Only comments are read, never code or strings. A sentence begins where a comment, a paragraph or an
item of a list begins, and after a full stop.
"""

import re
from bisect import bisect_right

import source

LANGUAGE_FOLDERS = ("compression", "daemon", "membership", "optimizer", "worker")

START = r'(?:^|(?<=[.!?] )|(?<=[.!?][")] ))\(?'
VALUE = r"(?:[Ff]alse|[Tt]rue|[Nn]ull(?:ptr|opt)?|[Ee]mpty|[Ee]ndless|InfiniteFuture)"
STATUS = (r"(?:CANCELLED|UNKNOWN|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS"
          r"|PERMISSION_DENIED|UNAUTHENTICATED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED"
          r"|OUT_OF_RANGE|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS)")
# (pattern, what would be right): the first group is what is found; where there is a second, it is
# too short if it has fewer than FEWEST_WORDS words.
FEWEST_WORDS = 5
LANGUAGE = [
    (START + r"(Of|Who|Whose|Whom|Since when)\b(?![.'])",
     "begin the sentence with its subject or its verb"),
    (START + rf"({VALUE}:)(?: |$)", 'write a sentence: "Returns false if ...", "Null if ..."'),
    (START + rf"({STATUS}(?:(?:,| or| and) {STATUS})*:)(?: (.*?))?(?:[.;] |[.;]?$)",
     'write a sentence: "Fails with INVALID_ARGUMENT if ..."'),
    (r"(?<!\b[Tt]here )\b((?:is|are) none)\b", 'write "is not one" or "has no ..."'),
    (r"\b(comes to)\b", 'write "equals", "is" or "becomes"'),
    (r"\b(in vain)\b", 'write "fails"'),
    (r"\b([Ww]hoever)\b", 'write "a peer that ...", "the process that ..."'),
]
LANGUAGE = [(re.compile(pattern), right) for pattern, right in LANGUAGE]


def comments(file):
    """Every comment as a list of (line, text); // lines below each other, in one column, are one,
    whether or not code stands before the first."""
    found, next_line, column = [], 0, 0
    line, end = 1, 0
    for match in source.TOKEN.finditer(file.text):
        line += file.text.count("\n", end, match.start())
        end = match.start()
        if match.group("comment") is None:
            continue
        begin = file.text.rfind("\n", 0, end) + 1
        text = re.sub(r"\A(?://+|/\*+)|\*+/\Z", "", match.group())
        lines = list(enumerate(text.split("\n"), line))
        goes_on = line == next_line and end - begin == column and not file.text[begin:end].strip()
        if goes_on:
            found[-1] += lines
        else:
            found.append(lines)
        next_line, column = lines[-1][0] + 1, end - begin
    return found


def paragraphs(comment):
    """(text on one line, places at which lines begin, numbers of these lines) of each paragraph and
    item of a comment."""
    text, places, numbers = "", [], []
    for number, line in comment + [(0, "")]:
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if (item or not line.strip()) and text:
            yield text, places, numbers
            text, places, numbers = "", [], []
        line = line[item.end():].strip() if item else line.strip()
        if line:
            text += " " if text else ""
            places.append(len(text))
            numbers.append(number)
            text += line


def check_language(files):
    for file in files:
        if not file.is_header() or not file.under(*LANGUAGE_FOLDERS):
            continue
        for comment in comments(file):
            for text, places, numbers in paragraphs(comment):
                for pattern, right in LANGUAGE:
                    for match in pattern.finditer(text):
                        words = match.group(2) if pattern.groups > 1 else None
                        if words is not None and len(words.split()) >= FEWEST_WORDS:
                            continue
                        line = numbers[bisect_right(places, match.start(1)) - 1]
                        yield file.path, line, "language", f'"{match.group(1)}": {right}'


ALL = [check_language]
