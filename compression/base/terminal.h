// Terminal: decides whether a program may write more than plain ASCII lines to a stream. All
// programs use this decision for their views, charts, progress and logs, and print lines with
// PrintLine.
//
// The functions read the environment. They may be called from any thread as long as no thread
// changes the environment.
#pragma once

#include <cstdio>
#include <functional>

#include "absl/strings/string_view.h"

namespace atolld {

enum class Charset { kAscii, kUnicode };  // kUnicode is written as UTF-8

struct Terminal {
  Charset charset = Charset::kAscii;
  bool redraws = false;  // true if the terminal obeys escape sequences and carriage returns
  bool colours = false;
};

// Returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// Returns what may be written to a stream; `is_terminal` is the result of isatty() for it. A stream
// that is not a terminal gets plain lines. A terminal also gets plain lines if TERM is "dumb" or
// not set, or if NO_COLOR is set and not empty (no-color.org). Characters beyond ASCII are written
// only if the first of LC_ALL, LC_CTYPE and LANG that is set names UTF-8.
Terminal TerminalFor(bool is_terminal);
Terminal TerminalFor(bool is_terminal, const Environment& environment);

// Writes one line, in which unprintable characters are escaped (see Printable in names.h). Adds a
// line end unless `line` already has one.
void PrintLine(FILE* out, absl::string_view line);

}  // namespace atolld
