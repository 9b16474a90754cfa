// The manual of a program: the descriptions of its verbs and options, printed as help for the
// terminal and as man pages. CommandLine makes these pages from its tree of verbs (command_line.h);
// completion.h uses them too.
//
// Pure. May be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

struct OptionPage {
  std::string name;       // "--config" or, for a positional argument, its name in the help: "PEER"
  std::string value;      // the kind of its value: "FILE", "N"; empty for a flag
  std::string meaning;    // without a full stop
  std::string limits;     // "1 to 64"; empty if there are none
  std::string otherwise;  // the default; empty if there is none, or if `meaning` gives it
  std::vector<std::string> choices;  // all allowed values; empty if any value is allowed
  bool positional = false;
  bool required = false;
  bool repeated = false;
};

// A verb with its options, or a group with its verbs; the program itself is a group.
struct VerbPage {
  std::string path;     // "atoll run show"
  std::string heading;  // the heading above it in the list of verbs; "Verbs" if empty
  std::string summary;  // a line of at most kSummaryColumns, without a full stop
  std::string details;  // sentences; may be empty
  std::string example;  // a command that runs as printed; empty for a group
  std::vector<OptionPage> options;
  std::vector<VerbPage> verbs;  // without hidden verbs
};

// The longest summary with which a list of verbs fits 80 columns.
inline constexpr size_t kSummaryColumns = 61;

inline constexpr absl::string_view kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 the call or the config is wrong.";

// Returns the path of the page without the program's name: "run show".
std::string ShortName(const VerbPage& page);

// Returns the last word of its path: "show".
std::string LastWord(const VerbPage& page);

// Returns all verbs under this page in order, without the groups.
std::vector<const VerbPage*> Leaves(const VerbPage& page);

// Returns the text of --help: lines of at most 80 columns. A group has one line for each verb,
// under headings.
std::string HelpText(const VerbPage& page);

// Returns a man page of section 1, in roff with the man macros. The page of a group describes all
// its verbs.
std::string ManPage(const VerbPage& page, absl::string_view version);

}  // namespace atolld
