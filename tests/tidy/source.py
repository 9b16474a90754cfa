"""Reading a source tree: which files it has, and C++ text without its comments and literals."""

import os
import re
import subprocess

SKIPPED_FOLDERS = {".git", "build", ".cache", "__pycache__"}


class File:
    """One tracked file. `lines` is the text as it stands, `code` the same lines without C++
    comments, and `bare` also without the insides of string and character literals."""

    def __init__(self, root, path):
        self.path = path
        self.size = os.path.getsize(os.path.join(root, path))
        with open(os.path.join(root, path), "rb") as handle:
            data = handle.read()
        self.is_text = b"\0" not in data
        self.text = data.decode("utf-8", errors="replace") if self.is_text else ""
        self.lines = self.text.splitlines()
        self.code, self.bare = self.lines, self.lines
        if self.is_cpp():
            code, bare = strip(self.text)
            self.code, self.bare = code.splitlines(), bare.splitlines()
        elif self.path.endswith(".proto"):
            self.code = strip(self.text)[0].splitlines()

    def is_cpp(self):
        return self.path.endswith((".h", ".cc"))

    def is_header(self):
        return self.path.endswith(".h")

    def top(self):
        """The folder under the root, "" for a file that lies there itself."""
        return self.path.split("/")[0] if "/" in self.path else ""

    def under(self, *folders):
        return any(self.path.startswith(folder.rstrip("/") + "/") for folder in folders)

    def includes(self):
        """(line number, path, quoted) of every #include."""
        for number, line in enumerate(self.code, 1):
            match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
            if match:
                yield number, match.group(1) or match.group(2), match.group(1) is not None


TOKEN = re.compile(
    r"""
    (?P<comment> //(?:[^\n\\]|\\.|\\\n)* | /\*.*?(?:\*/|\Z) )
  | (?P<raw> \b(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)" )
  | (?P<string> "(?:[^"\\\n]|\\.|\\\n)*" )
  | (?P<char> (?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+' )
    """,
    re.VERBOSE | re.DOTALL,
)


def blank(text):
    """Spaces in place of everything but line ends, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", text)


def strip(text):
    code, bare, end = [], [], 0
    for match in TOKEN.finditer(text):
        between = text[end : match.start()]
        end = match.end()
        code.append(between)
        bare.append(between)
        token = match.group()
        if match.group("comment") is not None:
            code.append(blank(token))
            bare.append(blank(token))
        else:
            code.append(token)
            bare.append(token[0] + blank(token[1:-1]) + token[-1])
    code.append(text[end:])
    bare.append(text[end:])
    return "".join(code), "".join(bare)


def paths(root):
    """Every file that git knows or would add; without git, every file outside build folders."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ) if os.path.exists(os.path.join(root, ".git")) else None
    if listed is not None and listed.returncode == 0:
        names = listed.stdout.decode("utf-8").split("\0")
        return sorted({n for n in names if n and os.path.isfile(os.path.join(root, n))})
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def read_tree(root):
    return [File(root, path) for path in paths(root)]
