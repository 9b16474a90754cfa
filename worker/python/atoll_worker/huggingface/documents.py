"""Files as documents: text, records of JSON, records of Parquet. Needs no tokenizer.

The rules and the words are those of atoll-worker (docs/data.md, worker/data/text_files.h); the
cases in tests/unit/worker/data/reading_cases.json are run against both. Parquet is read here alone.
"""

import dataclasses
import importlib
import json
import os
import re
import stat
import zlib
from typing import Any, Iterator, List, Optional, Tuple, Union

from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.needs import need
from atoll_worker.huggingface.records import BadRecord, Record, document_of

Document = Union[str, Record]

HEAD = 4096       # bytes of a file that are looked at: what it is, it says there
SHOWN = 3         # bad lines in a note
MARK = b"\xef\xbb\xbf"  # a byte order mark in UTF-8
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
STRING_OR_MARK = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)
NOT_SPACE = re.compile(rb"[^ \t\r\n]")
AS_LINES = "write its text as lines of JSON (.jsonl)"
SIGNATURES = (
    (b"ARROW1", f"is an Arrow table; {AS_LINES}"),
    (b"Obj\x01", f"is an Avro table; {AS_LINES}"),
    (b"SQLite format 3", f"is an SQLite database; {AS_LINES}"),
    (b"\x89HDF", f"is an HDF5 file; {AS_LINES}"),
    (b"%PDF-", "is a PDF; extract its text first"),
    (GZIP, "is compressed twice, within by gzip; unpack it once"),
    (ZSTD, "is compressed twice, within by zstd; unpack it once"),
    (b"\xfd7zXZ", "is compressed with xz; unpack it with unxz first"),
    (b"BZh9", "is compressed with bzip2; unpack it with bunzip2 first"),
    (b"\x04\x22\x4d\x18", "is compressed with lz4; unpack it with unlz4 first"),
    (b"PK\x03\x04", "is a zip archive; unpack it with unzip first"),
    (b"7z\xbc\xaf", "is a 7z archive; unpack it with 7z first"),
    (b"\x93NUMPY", "is an array of NumPy's; name it .npy if it holds token ids"),
    (b"\xff\xfe", "is UTF-16; turn it into UTF-8 (iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "is UTF-16; turn it into UTF-8 (iconv -f UTF-16 -t UTF-8)"),
)


def _wrong(path: str, what: str) -> WorkerFailure:
    return WorkerFailure(f"data: {path} {what}")


@dataclasses.dataclass
class TextRules:
    """[data] kind, field and on_bad_line; and what was found: the lines that were left out, and
    what their owner should know."""

    kind: str = "text"
    field: str = ""
    skip_bad_lines: bool = False
    skipped: int = 0
    first_bad: List[str] = dataclasses.field(default_factory=list)
    notes: List[str] = dataclasses.field(default_factory=list)

    def bad(self, file: str, place: str, why: str) -> None:
        """WorkerFailure, unless such lines are to be left out."""
        if not self.skip_bad_lines:
            raise WorkerFailure(f"data: {file}: {place} {why} ([data] on_bad_line or --on-bad-line "
                                "can skip such lines)")
        self.skipped += 1
        if len(self.first_bad) < SHOWN:
            self.first_bad.append(f"{file}: {place} {why}")

    def all_notes(self) -> List[str]:
        if not self.skipped:
            return self.notes
        one = "bad line was" if self.skipped == 1 else "bad lines were"
        more = "; ..." if self.skipped > SHOWN else ""
        return self.notes + [f"{self.skipped} {one} skipped: {'; '.join(self.first_bad)}{more}"]


class _Listing:
    """The files of a folder and what was left out, as ListDataFolder."""

    def __init__(self) -> None:
        self.files: List[str] = []
        self._left_out: List[Tuple[str, str]] = []  # what it is, and its name

    def add(self, folder: str, within: Tuple[Tuple[int, int], ...]) -> None:
        try:
            names = sorted(os.listdir(folder))
            for name in names:
                if name.startswith("."):
                    self._left_out.append(("hidden", name))
                else:
                    self._add_one(os.path.join(folder, name), name, within)
        except OSError as error:
            raise WorkerFailure(f"data: {error.filename}: cannot be read: {error.strerror}; give "
                                "this user access, or take it out of the folder") from None

    def _add_one(self, path: str, name: str, within: Tuple[Tuple[int, int], ...]) -> None:
        if os.path.islink(path) and not os.path.exists(path):
            raise _wrong(path, "is a link that leads nowhere; mend it or remove it")
        info = os.stat(path)
        if stat.S_ISREG(info.st_mode):
            self.files.append(path)
        elif not stat.S_ISDIR(info.st_mode):
            self._left_out.append(("special", name))
        elif (info.st_dev, info.st_ino) in within:
            self._left_out.append(("loop", name))
        else:
            self.add(path, within + ((info.st_dev, info.st_ino),))

    def notes(self, path: str) -> List[str]:
        notes = []
        for kind, one, many in (("hidden", "hidden file or folder", "hidden files and folders"),
                                ("special", "socket, pipe or device",
                                 "sockets, pipes and devices"),
                                ("loop", "link back to a folder that holds it",
                                 "links back to folders that hold them")):
            names = sorted(name for what, name in self._left_out if what == kind)
            if names:
                several = len(names) > 1
                notes.append(f"{len(names)} {many if several else one} in {path} ({names[0]}"
                             f"{', ...' if several else ''}) {'were' if several else 'was'} "
                             "left out")
        return notes


def files_under(path: str, notes: Optional[List[str]] = None) -> List[str]:
    """The files of a place, in the order of their paths; what was left out goes to `notes`."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise WorkerFailure(f"data: {path}: No such file or directory")
    found, info = _Listing(), os.stat(path)
    found.add(path, ((info.st_dev, info.st_ino),))
    left_out = found.notes(path)
    if not found.files:
        raise WorkerFailure("; ".join([f"data: folder {path} holds no files"] + left_out[:1]))
    if notes is not None:
        notes.extend(left_out)
    return sorted(found.files, key=lambda one: one.split("/"))


def _unzipped(path: str, data: bytes) -> bytes:
    """gzip of any number of members; zero bytes behind the last, as tape and block devices leave
    them, are no text."""
    out = []
    while data:
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            out.append(member.decompress(data) + member.flush())
        except zlib.error as error:
            raise _wrong(path, f"is damaged: {error}") from None
        if not member.eof:
            raise _wrong(path, "is damaged: it ends inside its compressed text")
        data = member.unused_data.lstrip(b"\0")
    return b"".join(out)


def _unpacked(path: str, data: bytes) -> bytes:
    if data.startswith(GZIP):
        return _unzipped(path, data)
    for name in ("compression.zstd", "zstandard"):
        try:
            return bytes(importlib.import_module(name).decompress(data))
        except ImportError:
            continue
        except Exception as error:
            raise _wrong(path, f"is damaged: {error}") from None
    raise _wrong(path, "is compressed with zstd, which this Python cannot unpack; pip install "
                       "zstandard, or unpack it with unzstd first")


def _form_of_json(path: str, head: bytes) -> str:
    if head.startswith(b"["):
        return "array"
    if head.startswith(b"{"):
        line, newline, _ = head.partition(b"\n")
        try:
            if not newline or isinstance(json.loads(line), dict):
                return "lines"
        except ValueError:
            pass  # a record that goes over lines is none
    raise _wrong(path, "is JSON, but neither a list of records nor a record a line; write it as "
                       "one of them, or set [data] kind (--kind) to \"plain\" to train on it as "
                       "it is")


def _form_of(path: str, name: str, head: bytes, rules: TextRules) -> str:
    """"prose", "lines" or "array"; `name` is what the file would be called were it not packed."""
    for begin, what in SIGNATURES:
        if head.startswith(begin):
            raise _wrong(path, what)
    if head[257:262] == b"ustar":
        raise _wrong(path, "is a tar archive; unpack it with tar first")
    if rules.kind == "plain" and not rules.field:
        return "prose"
    begin = (head[3:] if head.startswith(MARK) else head).lstrip()
    if name.endswith((".jsonl", ".ndjson")) or rules.kind in ("jsonl", "chat") or rules.field:
        return "array" if begin.startswith(b"[") else "lines"
    if name.endswith(".json") and head:
        return _form_of_json(path, begin)
    if name.lower().endswith((".csv", ".tsv")):
        raise _wrong(path, f"is a table, not prose; {AS_LINES}, or set [data] kind (--kind) to "
                           "\"plain\" to train on it as it is")
    if re.match(rb"\[?\s*\{\s*\"", begin) and b"\":" in begin:
        raise _wrong(path, "looks like records of JSON, not like prose; set [data] kind (--kind) "
                           "to \"jsonl\" to train on their text, or to \"plain\" to train on it as "
                           "it is")
    return "prose"


def not_utf8(data: bytes, at: int) -> str:
    """What text with bytes that are not UTF-8 may be, and how it becomes UTF-8."""
    odd = {one for one in data[at:at + (1 << 16)] if one >= 0x80}
    if odd & {0x81, 0x8d, 0x8f, 0x90, 0x9d}:  # these are no characters of cp1252
        return ""
    name = "Windows-1252 (cp1252)" if any(one < 0xa0 for one in odd) else "Latin-1"
    code = "CP1252" if any(one < 0xa0 for one in odd) else "LATIN1"
    return f"; if it is {name}, iconv -f {code} -t UTF-8 turns it into UTF-8"


def _prose(path: str, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _wrong(path, f"is not UTF-8 at byte {error.start}{not_utf8(data, error.start)}"
                     ) from None
    null = data.find(b"\0")
    if null >= 0:
        raise _wrong(path, f"has a zero byte at byte {null}, which no text has; it is binary, or "
                           "UTF-16 without its mark")
    return text


def _end_of_element(text: bytes, at: int) -> int:
    """The place of the comma or bracket behind the element that begins at `at`; -1: none."""
    depth = 0
    for found in STRING_OR_MARK.finditer(text, at):
        one = found.group()
        if one in (b"{", b"["):
            depth += 1
        elif depth == 0 and one in (b",", b"]"):
            return found.start()
        elif one in (b"}", b"]"):
            depth -= 1
    return -1


def _pieces(path: str, data: bytes, form: str) -> Iterator[Tuple[int, bytes]]:
    """The records of a file, and the number of the line where each begins."""
    if data.startswith(MARK):
        data = data[len(MARK):]
    if form == "lines":
        yield from enumerate(data.split(b"\n"), 1)
        return
    line, before, at = 1, 0, data.find(b"[") + 1
    while at < len(data):
        begins = NOT_SPACE.search(data, at)
        at = begins.start() if begins else len(data)
        line, before = line + data.count(b"\n", before, at), at
        end = _end_of_element(data, at)
        if end < 0:
            raise _wrong(path, f"ends inside its array, in the element of line {line}")
        yield line, data[at:end]
        at = end + 1
        if data[end:at] == b"]":
            if data[at:].strip():
                raise _wrong(path, f"continues after its array at byte {at}")
            return


def _loaded(record: bytes) -> Any:
    try:
        text = record.decode()
        value = json.loads(text)
        if b"\\u" in record:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeDecodeError as error:
        raise BadRecord(f"is not UTF-8 at its byte {error.start + 1}"
                        f"{not_utf8(record, error.start)}") from None
    except UnicodeEncodeError:
        raise BadRecord("is not JSON: half of a surrogate pair (\\ud800 to \\udfff) stands alone, "
                        "as where a text was cut inside a character") from None
    except json.JSONDecodeError as error:
        raise BadRecord(f"is not JSON at its byte {len(text[:error.pos].encode()) + 1}: "
                        f"{error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"is not JSON: {error}") from None


def _records(path: str, data: bytes, form: str, rules: TextRules) -> Iterator[Document]:
    for line, piece in _pieces(path, data, form):
        if not piece.strip():
            continue
        place = f"line {line}"
        try:
            document = document_of(_loaded(piece), rules.field)
        except BadRecord as bad:
            rules.bad(path, place, str(bad))
            continue
        if isinstance(document, Record):
            document.file, document.place = path, place
        yield document


def _parquet(path: str, rules: TextRules) -> Iterator[Document]:
    parquet = need("pyarrow.parquet", "pip install pyarrow")
    number = 0
    for batch in parquet.ParquetFile(path).iter_batches():
        for record in batch.to_pylist():
            number += 1
            try:
                document = document_of(record, rules.field)
            except BadRecord as bad:
                rules.bad(path, f"row {number}", str(bad))
                continue
            if isinstance(document, Record):
                document.file, document.place = path, f"row {number}"
            yield document


def documents(path: str, rules: TextRules) -> Iterator[Document]:
    """All documents of a place, one after the other. WorkerFailure: what is neither text nor
    records, by name; a bad line, by file and line, unless such lines are to be left out."""
    marked: List[str] = []
    returns: List[str] = []
    for file in files_under(path, rules.notes):
        with open(file, "rb") as source:
            head = source.read(HEAD)
            if head.startswith(b"PAR1") and rules.kind != "plain":
                yield from _parquet(file, rules)
                continue
            data = head + source.read()
        name = file
        if data.startswith((GZIP, ZSTD)):
            data, name = _unpacked(file, data), re.sub(r"\.(gz|zst|zstd)$", "", file)
        form = _form_of(file, name, data[:HEAD], rules)
        if form != "prose":
            yield from _records(file, data, form, rules)
            continue
        if data.startswith(MARK):
            marked.append(file)
        if b"\r\n" in data[:HEAD]:
            returns.append(file)
        yield _prose(file, data)
    rules.notes.extend(_odd(marked, "begins", "begin",
                            "with a byte order mark, which is trained on; sed -i "
                            "'1s/^\\xEF\\xBB\\xBF//' takes it out"))
    rules.notes.extend(_odd(returns, "has", "have",
                            "lines that end in CR LF, which are trained on as they are; "
                            "sed -i 's/\\r$//' "
                            "makes them end in LF"))


def _odd(files: List[str], one: str, many: str, what: str) -> List[str]:
    """Prose that is trained on as it is and has what its owner may not want there."""
    if not files:
        return []
    if len(files) == 1:
        return [f"{files[0]} {one} {what}"]
    return [f"{len(files)} files ({files[0]}, ...) {many} {what}"]
