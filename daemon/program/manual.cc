#include "daemon/program/manual.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

constexpr size_t kHelpColumns = 80;
constexpr size_t kMostNameColumns = 26;  // longer ones have their meaning on the next line

std::vector<std::string> Wrap(absl::string_view text, size_t columns) {
  std::vector<std::string> lines = {""};
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    std::string& last = lines.back();
    if (!last.empty() && TextWidth(last) + 1 + TextWidth(word) > columns) {
      lines.emplace_back(word);
    } else {
      absl::StrAppend(&last, last.empty() ? "" : " ", word);
    }
  }
  return lines;
}

// Returns "--config FILE", "--peers N" or "--json".
std::string Spelled(const OptionPage& option) {
  if (option.positional) return absl::StrCat(option.name, option.repeated ? "..." : "");
  return option.value.empty() ? option.name : absl::StrCat(option.name, " ", option.value);
}

std::string MeaningOf(const OptionPage& option) {
  std::string text = option.meaning;
  if (option.positional && !option.choices.empty()) {
    absl::StrAppend(&text, ": ", absl::StrJoin(option.choices, " or "));
  }
  // A meaning that ends with brackets says in words what is taken otherwise.
  std::string otherwise = option.otherwise.empty() ? "" : absl::StrCat(" [", option.otherwise, "]");
  const size_t bracket = text.rfind(" [");
  if (absl::EndsWith(text, "]") && bracket != std::string::npos) {
    otherwise = text.substr(bracket);
    text.resize(bracket);
  }
  if (!option.limits.empty()) absl::StrAppend(&text, " (", option.limits, ")");
  if (option.required) absl::StrAppend(&text, text.empty() ? "" : "; ", "required");
  return text + otherwise;
}

// Returns "atoll run show [OPTIONS] PEER".
std::string Synopsis(const VerbPage& page) {
  if (!page.verbs.empty()) return absl::StrCat(page.path, " VERB [OPTIONS]");
  std::string line = page.path;
  bool options = false;
  for (const OptionPage& option : page.options) {
    if (option.required && !option.positional) absl::StrAppend(&line, " ", Spelled(option));
    if (!option.required && !option.positional) options = true;
  }
  if (options) absl::StrAppend(&line, " [OPTIONS]");
  for (const OptionPage& option : page.options) {
    if (!option.positional) continue;
    absl::StrAppend(&line, option.required ? " " : " [", Spelled(option),
                    option.required ? "" : "]");
  }
  return line;
}

void AddOptions(const VerbPage& page, bool positional, absl::string_view title, std::string* text) {
  size_t columns = 0;
  for (const OptionPage& option : page.options) {
    if (option.positional != positional) continue;
    if (columns == 0) absl::StrAppend(text, "\n", title, ":\n");
    columns = std::max(columns, std::min(TextWidth(Spelled(option)), kMostNameColumns));
  }
  for (const OptionPage& option : page.options) {
    if (option.positional != positional) continue;
    std::string name = Spelled(option);
    if (TextWidth(name) > columns) {
      absl::StrAppend(text, "  ", name, "\n");
      name.clear();
    }
    for (const std::string& line : Wrap(MeaningOf(option), kHelpColumns - columns - 4)) {
      absl::StrAppend(text,
                      absl::StripTrailingAsciiWhitespace(
                          absl::StrCat("  ", PadRight(name, columns), "  ", line)),
                      "\n");
      name.clear();
    }
  }
}

std::string HeadingOf(const VerbPage& verb) {
  return verb.heading.empty() ? "Verbs" : verb.heading;
}

void AddVerbs(const VerbPage& page, std::string* text) {
  // A longer name has a line of its own above its summary.
  constexpr size_t kNameColumns = kHelpColumns - kSummaryColumns - 4;
  size_t columns = 0;
  for (const VerbPage* verb : Leaves(page)) {
    const size_t length = ShortName(*verb).size();
    if (length <= kNameColumns) columns = std::max(columns, length);
  }
  std::string heading;
  for (const VerbPage& verb : page.verbs) {
    if (HeadingOf(verb) != heading) {
      heading = HeadingOf(verb);
      absl::StrAppend(text, "\n", heading, ":\n");
    }
    for (const VerbPage* leaf : Leaves(verb)) {
      std::string name = ShortName(*leaf);
      if (name.size() > columns) {
        absl::StrAppend(text, "  ", name, "\n");
        name.clear();
      }
      absl::StrAppend(text, "  ", PadRight(name, columns), "  ", leaf->summary, "\n");
    }
  }
}

// -----------------------------------------------------------------------------------------------

// Returns text for a line of roff, in which nothing is a request or an escape.
std::string Roff(absl::string_view text) {
  std::string escaped =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}, {"`", "\\(ga"}});
  if (absl::StartsWith(escaped, ".")) escaped.insert(0, "\\&");
  return escaped;
}

void AddManOptions(const VerbPage& page, std::string* text) {
  for (const OptionPage& option : page.options) {
    absl::StrAppend(text, ".TP\n.B ", Roff(Spelled(option)), "\n", Roff(MeaningOf(option)), "\n");
  }
}

void AddManExample(const VerbPage& page, std::string* text) {
  if (page.example.empty()) return;
  absl::StrAppend(text, ".PP\nExample:\n.PP\n.RS 4\n.EX\n", Roff(page.example), "\n.EE\n.RE\n");
}

std::string Sentence(const VerbPage& page) {
  return absl::StrCat(page.summary, ".", page.details.empty() ? "" : " ", page.details);
}

}  // namespace

std::string ShortName(const VerbPage& page) { return page.path.substr(page.path.find(' ') + 1); }

std::string LastWord(const VerbPage& page) { return page.path.substr(page.path.rfind(' ') + 1); }

std::vector<const VerbPage*> Leaves(const VerbPage& page) {
  if (page.verbs.empty()) return {&page};
  std::vector<const VerbPage*> leaves;
  for (const VerbPage& verb : page.verbs) {
    const std::vector<const VerbPage*> more = Leaves(verb);
    leaves.insert(leaves.end(), more.begin(), more.end());
  }
  return leaves;
}

std::string HelpText(const VerbPage& page) {
  std::string text = absl::StrCat("Usage: ", Synopsis(page), "\n\n");
  for (const std::string& line : Wrap(Sentence(page), kHelpColumns)) {
    absl::StrAppend(&text, line, "\n");
  }
  if (!page.verbs.empty()) {
    AddVerbs(page, &text);
    const std::string program = page.path.substr(0, page.path.find(' '));
    absl::StrAppend(&text, "\n`", program, " help VERB` says how to use a verb.\n");
  }
  AddOptions(page, /*positional=*/true, "Arguments", &text);
  AddOptions(page, /*positional=*/false, "Options", &text);
  if (!page.example.empty()) absl::StrAppend(&text, "\nExample:\n  ", page.example, "\n");
  absl::StrAppend(&text, "\n", kExitCodes, "\n");
  return text;
}

std::string ManPage(const VerbPage& page, absl::string_view version) {
  const std::string title = absl::StrReplaceAll(page.path, {{" ", "-"}});
  const std::string program = page.path.substr(0, page.path.find(' '));
  std::string text =
      absl::StrCat(".TH ", Roff(absl::AsciiStrToUpper(title)), " 1 \"\" \"", Roff(program), " ",
                   Roff(version), "\" \"User Commands\"\n.SH NAME\n", Roff(title), " \\- ",
                   Roff(page.summary), "\n.SH SYNOPSIS\n.B ", Roff(Synopsis(page)),
                   "\n.SH DESCRIPTION\n", Roff(Sentence(page)), "\n");
  if (!page.options.empty()) absl::StrAppend(&text, ".SH OPTIONS\n");
  AddManOptions(page, &text);
  AddManExample(page, &text);
  std::string heading;
  for (const VerbPage& verb : page.verbs) {
    if (HeadingOf(verb) != heading) {
      heading = HeadingOf(verb);
      absl::StrAppend(&text, ".SH ", Roff(absl::AsciiStrToUpper(heading)), "\n");
    }
    for (const VerbPage* leaf : Leaves(verb)) {
      absl::StrAppend(&text, ".SS ", Roff(Synopsis(*leaf)), "\n", Roff(Sentence(*leaf)), "\n");
      AddManOptions(*leaf, &text);
      AddManExample(*leaf, &text);
    }
  }
  absl::StrAppend(&text, ".SH EXIT STATUS\n", Roff(kExitCodes), "\n");
  absl::StrAppend(&text, ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\n",
                  "If it is set and not empty: plain lines of ASCII, no colours.\n.TP\n.B TERM\n",
                  "The same if it is \\(lqdumb\\(rq or not set.\n.TP\n.B LC_ALL, LC_CTYPE, LANG\n",
                  "The first that is set decides whether more than ASCII is drawn.\n");
  absl::StrAppend(&text, ".SH SEE ALSO\n.BR atoll (1),\n.BR atolld (1),\n.BR atoll\\-worker (1)\n");
  return text;
}

}  // namespace atolld
