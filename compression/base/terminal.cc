#include "compression/base/terminal.h"

#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"

namespace atolld {
namespace {

bool SpeaksUtf8(const Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = environment(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

}  // namespace

Terminal TerminalFor(bool is_terminal) {
  return TerminalFor(is_terminal, [](const char* name) { return std::getenv(name); });
}

Terminal TerminalFor(bool is_terminal, const Environment& environment) {
  const char* const kind = environment("TERM");
  const char* const no_colour = environment("NO_COLOR");
  const bool dumb = kind == nullptr || *kind == '\0' || absl::string_view(kind) == "dumb";
  if (!is_terminal || dumb || (no_colour != nullptr && *no_colour != '\0')) return Terminal();
  return {SpeaksUtf8(environment) ? Charset::kUnicode : Charset::kAscii, true, true};
}

void PrintLine(FILE* out, absl::string_view line) {
  absl::ConsumeSuffix(&line, "\n");
  const std::string text = Printable(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), out);
}

}  // namespace atolld
