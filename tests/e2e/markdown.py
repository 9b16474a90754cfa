"""What a page of the documentation shows: its blocks of code, and the commands in them.

A page's commands stand in blocks that begin with ```sh. Those with ```console show, after "$ ", a
command and then what it prints.
"""

import collections
import re
import subprocess

# Lines are those of the text inside the block; `line` is the number of the first one. A block that
# is indented, and no fence, has the language None.
Block = collections.namedtuple("Block", "page line language text")

# `printed`: what the page says it prints, or None.
Command = collections.namedtuple("Command", "page line text printed")

FENCE = re.compile(r"^ *```(\S*)$")

# How a line begins that somebody would type: with a program of ours or of the system, perhaps after
# variables.
TYPED = re.compile(r"""(\$\ )?([A-Z_]+=\S*\ +)*
    (atoll|atolld|atoll-[a-z]+|scripts/\S+|tests/\S+|build/\S+|python3|cmake|ctest|docker|git|cp|cd
    |export|for|kill|sudo|ssh)\ """, re.VERBOSE)


def blocks(page, text):
    """All blocks of a page, in order."""
    found, fence, start, kept = [], None, 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        match = FENCE.match(line)
        if fence is None and match:
            fence, start, kept = match.group(1), number + 1, []
        elif fence is not None and match:
            found.append(Block(page, start, fence, "\n".join(kept)))
            fence, kept = None, []
        elif fence is not None:
            kept.append(line)
        elif line.startswith("    ") and (kept or line.strip()):
            if not kept:
                start = number
            kept.append(line[4:])
        elif kept:
            found.append(Block(page, start, None, "\n".join(kept)))
            kept = []
    if fence is not None:
        raise ValueError(f"{page}:{start}: this block has no end")
    return found


def is_whole(text):
    """Whether a shell would begin to run this, and not wait for another line."""
    if text.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True,
                          check=False).returncode == 0


def commands(block):
    """The commands of a block of the languages sh and console."""
    if block.language == "console":
        return console_commands(block)
    found, kept, start = [], "", block.line
    for number, line in enumerate(block.text.splitlines(), block.line):
        if not kept and (not line.strip() or line.startswith("#")):
            continue
        if not kept:
            start = number
        kept = f"{kept}\n{line}" if kept else line
        if is_whole(kept):
            found.append(Command(block.page, start, kept, None))
            kept = ""
    if kept:
        raise ValueError(f"{block.page}:{start}: no shell understands this:\n{kept}")
    return found


def console_commands(block):
    found = []
    for part in re.split(r"(?m)^(?=\$ )", block.text)[1:]:
        first, _, rest = part.partition("\n")
        before = block.text[:block.text.index(part)].count("\n")
        found.append(Command(block.page, block.line + before, first[2:], rest))
    return found


def spans(page, text):
    """The code within prose, as commands: what stands between two backticks, also over a line's
    end."""
    found, fenced = [], False
    lines = []
    for line in text.splitlines():
        fence = FENCE.match(line)
        lines.append("" if fenced or fence or line.startswith("    ") else line)
        fenced ^= bool(fence)
    prose = "\n".join(lines)
    for match in re.finditer(r"`([^`]+)`", prose):
        if "\n\n" not in match.group(1):
            number = prose.count("\n", 0, match.start()) + 1
            found.append(Command(page, number, " ".join(match.group(1).split()), None))
    return found
