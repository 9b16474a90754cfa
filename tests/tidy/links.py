"""Links in pages: the file that a relative link names is there, and the page that it names has the
heading of its #anchor, by GitHub's rule."""

import os
import re
import urllib.parse

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
LIST_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d+[.)])\s")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
UNDERLINE = re.compile(r"^ {0,3}(?:=+|-+)\s*$")
CODE = re.compile(r"(`+)(?!`)((?:(?!\n\n).)*?)(?<!`)\1(?!`)", re.S)
TEXT = r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]"
TARGET = r"<?([^\s<>()]+(?:\([^\s()]*\)[^\s<>()]*)?)>?"
INLINE = re.compile(TEXT + r"\(\s*" + TARGET + r"(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[([^\[\]]+)\]:\s*<?([^\s<>]+)>?", re.M)
FULL = re.compile(TEXT + r"\[([^\[\]]*)\]")
# [run.h] alone is a link by its name; [run] alone may be a section of a config.
ALONE = re.compile(r"(?<![\]\w])\[([\w./+-]+\.(?:h|cc|md|py|proto|toml))\](?![\[(:])")
# A definition that lost its brackets: a reader sees it as text.
UNDEFINING = re.compile(r"^[^\s\[|>]\S*: \.{1,2}/\S+$", re.M)
ANCHOR_TAG = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.I)


def prose_of(lines):
    """The lines of a page, with those of code blocks empty."""
    prose, fence, listed, code, blank = [], None, False, False, True
    for line in lines:
        match = FENCE.match(line)
        if fence is not None:
            if match and match.group(1).startswith(fence):
                fence = None
            prose.append("")
            continue
        if match:
            fence = match.group(1)
            prose.append("")
            continue
        if not line.strip():
            blank = True
            prose.append("")
            continue
        indented = line.startswith("    ")
        if not indented:
            listed = bool(LIST_ITEM.match(line)) or (listed and line.startswith(" "))
        code = indented and not listed and (blank or code)
        blank = False
        prose.append("" if code else line)
    return prose


def blanked(match):
    return re.sub(r"[^\n]", " ", match.group())


def anchor_of(heading):
    """GitHub's: the text without markup, in small letters, without punctuation, blanks as '-'."""
    text = INLINE.sub(lambda match: match.group(1), heading)
    text = re.sub(r"(?<!\w)[*_]+|[*_]+(?!\w)|`", "", text)
    text = re.sub(r"[^\w\- ]", "", text.lower())
    return text.replace(" ", "-")


def anchors_of(prose):
    anchors, seen = set(), {}
    for number, line in enumerate(prose):
        match = HEADING.match(line)
        heading = match.group(1) if match else None
        following = prose[number + 1] if number + 1 < len(prose) else ""
        if heading is None and UNDERLINE.match(following) and line.strip() \
                and not line.startswith(("|", "-", ">")):
            heading = line.strip()
        anchors.update(ANCHOR_TAG.findall(line))
        if heading is None:
            continue
        anchor = anchor_of(heading)
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        anchors.add(anchor if count == 0 else f"{anchor}-{count}")
    return anchors


def links_of(prose):
    """(offset, target, what is wrong with the link itself, or None) of every link of a page, and
    the page's text in which the offsets count."""
    text = CODE.sub(blanked, "\n".join(prose))
    found = [(match.start(), match.group(2), None) for match in INLINE.finditer(text)]
    # A link's text may be code, so its name is read where the code still stands.
    whole = "\n".join(prose)
    for match in UNDEFINING.finditer(whole):
        found.append((match.start(), None, "a link is defined as [name]: path"))
    defined = {}
    for match in DEFINITION.finditer(text):
        defined[match.group(1).lower()] = match.start()
        found.append((match.start(), match.group(2), None))
    used = set()
    for match in FULL.finditer(text):
        name = whole[match.start(2):match.end(2)] or whole[match.start(1):match.end(1)]
        name = " ".join(name.split()).lower()
        used.add(name)
        if name not in defined:
            found.append((match.start(), None, f"[{name}] is not defined"))
    for match in ALONE.finditer(text):
        name = match.group(1).lower()
        if name not in defined:
            found.append((match.start(), None, f"[{name}] is not defined"))
    for name, start in defined.items():
        alone = re.search(rf"\[{re.escape(name)}\](?![(:])", text, re.I)
        if name not in used and not alone:
            found.append((start, None, f"[{name}] is not used"))
    return found, text


def fault_of(page, target, known, anchors):
    """What is wrong with where a link leads, or None."""
    if ELSEWHERE.match(target):
        return None
    path, _, anchor = target.partition("#")
    path = urllib.parse.unquote(path)
    if path.startswith("/"):
        return "write a path from this page"
    named = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if named not in known:
        return "there is no such file"
    if anchor and named in anchors and urllib.parse.unquote(anchor) not in anchors[named]:
        return f"{named} has no such heading"
    return None


def check_links(files):
    known = {"."}
    for file in files:
        path = file.path
        while path:
            known.add(path)
            path = os.path.dirname(path)
    pages = {file.path: prose_of(file.lines) for file in files if file.path.endswith(".md")}
    anchors = {path: anchors_of(prose) for path, prose in pages.items()}
    for path, prose in pages.items():
        found, text = links_of(prose)
        for start, target, fault in sorted(found, key=lambda one: one[0]):
            fault = fault or fault_of(path, target, known, anchors)
            if fault:
                line = text.count("\n", 0, start) + 1
                yield path, line, "links", f"{target}: {fault}" if target else fault


ALL = [check_links]
