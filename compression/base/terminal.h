// What may be written to a terminal beyond plain lines of ASCII. This is the one place that decides
// it, for views, charts, progress and logs of all programs. PrintLine is how a program says a line.
//
// Reads the environment; any thread, while nobody changes the environment.
#pragma once

#include <cstdio>
#include <functional>

#include "absl/strings/string_view.h"

namespace atolld {

enum class Charset { kAscii, kUnicode };  // kUnicode: as UTF-8

struct Terminal {
  Charset charset = Charset::kAscii;
  bool redraws = false;  // obeys escape sequences and carriage returns
  bool colours = false;
};

// The value of an environment variable; null: it is not set.
using Environment = std::function<const char*(const char* name)>;

// `is_terminal`: what isatty() says of the stream. Anything else gets plain lines, and so does a
// terminal with TERM=dumb (or none) or NO_COLOR set and not empty (no-color.org). Characters beyond
// ASCII need a locale with UTF-8, by the first of LC_ALL, LC_CTYPE and LANG that is set.
Terminal TerminalFor(bool is_terminal);
Terminal TerminalFor(bool is_terminal, const Environment& environment);

// Writes one line, whatever it quotes: what is not for showing is escaped (Printable in names.h).
// A line end at its end is one, and not doubled.
void PrintLine(FILE* out, absl::string_view line);

}  // namespace atolld
