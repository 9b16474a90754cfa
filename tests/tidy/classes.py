"""The size of classes: how many data members and methods a header declares in one class, and
whether a comment says why where they are many.

A header is read as declarations, not by its layout: comments and literals are blanked, brackets are
followed, and the declarations in the body of a class are told apart by their tokens.
"""

import re

import language
import source

CLASS_FOLDERS = ("compression", "daemon", "membership", "optimizer", "worker")
MEMBERS, METHODS = 20, 40
# What excuses a class, in the comment directly above it or in the first one of the header.
MANY_MEMBERS = re.compile(r"\bmore than (?:20|twenty) members\b", re.I)
MANY_METHODS = re.compile(r"\bmore than (?:40|forty) methods\b", re.I)

WORD = re.compile(r"\w+|::|->|<<|<=|>=|==|[^\s\w]")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
PAIRS = {"(": ")", "[": "]", "{": "}"}
TYPE_KEYS = {"class", "struct", "union"}
# Words whose brackets hold no function's parameters.
BRACKETED = {"alignas", "decltype", "__attribute__"}
ANNOTATION = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*")
# Declarations that are neither a member nor a method.
SKIPPED = {"using", "typedef", "friend", "static_assert"}


class Class:
    """A class or struct as a header declares it. `line` is where its name stands, `top` where its
    declaration begins, which for a template is above."""

    def __init__(self, name, line, top):
        self.name, self.line, self.top = name, line, top
        self.members, self.methods = 0, 0


class Reader:
    """Reads the declarations of a header; `classes` are those that it found, nested ones too."""

    def __init__(self, text):
        text = source.TOKEN.sub(self.without, text)
        text = DIRECTIVE.sub(lambda match: source.blank(match.group()), text)
        self.words, self.lines = [], []
        line, end = 1, 0
        for match in WORD.finditer(text):
            line += text.count("\n", end, match.start())
            end = match.start()
            self.words.append(match.group())
            self.lines.append(line)
        self.closing = self.pair()
        self.classes = []
        self.read_scope(0, len(self.words), None)

    @staticmethod
    def without(match):
        token = match.group()
        if match.group("comment") is not None:
            return source.blank(token)
        return "0" + source.blank(token[1:])

    def pair(self):
        """The index of the bracket that closes each one, or the end if none does."""
        closing, opened = {}, []
        for index, word in enumerate(self.words):
            if word in PAIRS:
                opened.append(index)
            elif opened and word == PAIRS[self.words[opened[-1]]]:
                closing[opened.pop()] = index
        closing.update((index, len(self.words)) for index in opened)
        return closing

    def word(self, index):
        return self.words[index] if index < len(self.words) else ""

    def after(self, index):
        """The index behind the bracket that closes the one at `index`."""
        return self.closing[index] + 1

    def after_angle(self, index):
        """The index behind the `>` of the `<` at `index`; index + 1 if it compares."""
        depth, at = 0, index
        while at < len(self.words):
            word = self.words[at]
            if word in PAIRS:
                at = self.after(at)
                continue
            if word in ";)]}":
                return index + 1
            depth += {"<": 1, ">": -1}.get(word, 0)
            at += 1
            if depth == 0:
                return at
        return index + 1

    def step(self, index):
        """The index of the next word at the level of the one at `index`."""
        word = self.words[index]
        if word in PAIRS:
            return self.after(index)
        if word == "<" and re.match(r"[A-Za-z_]", self.word(index - 1)):
            return self.after_angle(index)
        return index + 1

    def is_annotation(self, index):
        """True of alignas and ABSL_GUARDED_BY before their brackets, and of ABSL_LOCKABLE."""
        return self.words[index] in BRACKETED or bool(ANNOTATION.fullmatch(self.words[index]))

    def find(self, index, end, wanted):
        """The next of the `wanted` words at the level of `index`, or `end`."""
        while index < end and self.words[index] not in wanted:
            index = self.step(index)
        return min(index, end)

    def read_scope(self, index, end, owner):
        """Reads what a namespace (then `owner` is None) or the body of the class `owner` has."""
        while index < end:
            word, following = self.words[index], self.word(index + 1)
            if word in ("public", "protected", "private") and following == ":":
                index += 2
            elif word in (";", "}"):
                index += 1
            elif word == "namespace" or (word == "inline" and following == "namespace"):
                index = self.find(index, end, ("{", ";", "="))
                if self.word(index) == "{":
                    self.read_scope(index + 1, self.closing[index], None)
                    index = self.after(index)
                else:
                    index = self.find(index, end, (";",)) + 1
            elif word == "extern" and following == "0" and self.word(index + 2) == "{":
                self.read_scope(index + 3, self.closing[index + 2], None)
                index = self.after(index + 2)
            else:
                index = self.read_declaration(index, end, owner)

    def read_declaration(self, top, end, owner):
        """Reads one declaration, and returns the index behind it."""
        index = top
        while self.word(index) == "template" or self.word(index) == "[":
            index = self.after_angle(index + 1) if self.words[index] == "template" \
                else self.after(index)
        word = self.word(index)
        if word in SKIPPED:
            index = self.find(index, end, ("{", ";"))
            return self.after(index) if self.word(index) == "{" else index + 1
        if word in TYPE_KEYS or word == "enum":
            after = self.read_type(top, index, end, owner)
            if after is not None:
                return after
        head = self.find_parameters(index, end)
        if head is not None:
            if owner:
                owner.methods += 1
            return self.after_function(head, end)
        stop = self.find(index, end, (";",))
        if owner and not self.is_constant(index, stop):
            owner.members += self.declarators(index, stop)
        return stop + 1

    def is_constant(self, index, stop):
        head = self.words[index:stop]
        return "static" in head and ("constexpr" in head or "const" in head)

    def declarators(self, index, stop):
        """How many members the words from `index` to `stop` declare; commas divide them."""
        count = 1
        while (index := self.find(index, stop, (",",))) < stop:
            count += 1
            index += 1
        return count

    def read_type(self, top, index, end, owner):
        """Reads a class, struct, union or enum, and returns the index behind it; None if it is
        merely named, as the type of a member or of what a function returns."""
        key, at, name = self.words[index], index + 1, []
        while at < end and self.words[at] not in ("{", ";", ":"):
            word = self.words[at]
            if word == "(" and not self.is_annotation(at - 1):
                return None  # what a function returns
            if word == "::" and name:  # a qualified name is one
                name.pop()
            elif re.match(r"[A-Za-z_]", word):
                bracketed = self.word(at + 1) == "(" and self.is_annotation(at)
                if word != "final" and word not in TYPE_KEYS and not bracketed:
                    name.append(word)
            elif word not in ("::", "[", "(", "<"):
                return None  # struct stat* info
            at = self.step(at)
        if len(name) > 1 and self.word(at) != ";" and ANNOTATION.fullmatch(name[0]):
            name.pop(0)
        if len(name) > 1:
            return None  # struct stat info
        at = self.find(at, end, ("{", ";"))
        if self.word(at) != "{":
            return at + 1
        inner = Class(name[0] if name else "", self.lines[index], self.lines[top])
        if key != "enum":
            self.read_scope(at + 1, self.closing[at], inner)
            if name:
                self.classes.append(inner)
        at = self.after(at)
        stop = self.find(at, end, (";",))
        if owner and stop > at:
            owner.members += self.declarators(at, stop)
        elif owner and not name:  # an anonymous union's members are the class's
            owner.members += inner.members
        return stop + 1

    def find_parameters(self, index, end):
        """The index of the bracket that opens a function's parameters; None for a member."""
        while index < end and self.words[index] not in ("=", "{", ";", ":"):
            word = self.words[index]
            if word == "operator":
                index += 1
                while index < end and self.words[index] != "(":
                    index += 1
                is_call = self.words[index - 1] == "operator" and self.word(index + 1) == ")"
                return index + 2 if is_call else index
            if word == "(" and not self.is_annotation(index - 1):
                return None if self.is_pointer(index) else index
            index = self.step(index)
        return None

    def is_pointer(self, index):
        """True of the bracket in `void (*name)(int)`, `int (Boat::*name)()`, `int (&name)[2]`."""
        inside = self.words[index + 1:self.closing[index]]
        return bool(inside) and re.match(r"[*&^]|\w+ :: \*", " ".join(inside)) is not None \
            and "(" not in inside

    def after_function(self, index, end):
        """The index behind a function whose parameters open at `index`."""
        at = self.find(self.after(index), end, ("{", ";", ":"))
        if self.word(at) == ":":  # what a constructor initialises: name(...) or name{...}
            while True:
                at = self.find(at + 1, end, ("(", "{"))
                at = self.after(at) if at < end else end
                if self.word(at) == ".":  # a pack
                    at += 3
                if self.word(at) != ",":
                    break
            at = self.find(at, end, ("{", ";"))
        return self.after(at) if self.word(at) == "{" else at + 1


def one_line(comment):
    return " ".join(" ".join(text for _, text in comment).split())


def reasons_of(file):
    """The text of the header's first comment, and those of all others by the line below them."""
    comments = language.comments(file)
    first, below = "", {}
    for comment in comments:
        begin, last = comment[0][0], comment[-1][0]
        if file.code[begin - 1].strip():
            continue  # code stands before it
        below[last + 1] = one_line(comment)
        if comment is comments[0] and not any(
                line.strip() and not line.lstrip().startswith("#") for line in file.code[:begin]):
            first = one_line(comment)
    return first, below


def check_class_sizes(files):
    for file in files:
        if not file.is_header() or not file.under(*CLASS_FOLDERS):
            continue
        found = [one for one in Reader(file.text).classes
                 if one.methods > METHODS or (one.methods > 0 and one.members > MEMBERS)]
        if not found:
            continue
        first, below = reasons_of(file)
        for one in found:
            reasons = f"{first} {below.get(one.top, '')}"
            for count, limit, what, excuse in (
                    (one.members, MEMBERS, "members", MANY_MEMBERS),
                    (one.methods, METHODS, "methods", MANY_METHODS)):
                if count > limit and not excuse.search(reasons):
                    yield (file.path, one.line, "class-size",
                           f"{one.name} has {count} {what}; at most {limit}, unless the comment "
                           f'above it says why it has "more than {limit} {what}"')


ALL = [check_class_sizes]
