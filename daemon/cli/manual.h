// The manual of a program: what its tree of verbs says of itself, as help for the terminal and as
// man pages. CommandLine reads the tree (command_line.h); completion.h writes from the same pages.
//
// Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

struct OptionPage {
  std::string name;                  // "--config", or as the help calls what has its place: "PEER"
  std::string value;                 // what it takes: "FILE", "N"; empty: nothing, it is a flag
  std::string meaning;               // without a full stop
  std::string limits;                // "1 to 64"; empty: none
  std::string otherwise;             // the default; empty: none, or the meaning says it
  std::vector<std::string> choices;  // all that it takes; empty: anything
  bool positional = false;
  bool required = false;
  bool repeated = false;
};

// A verb with its options, or a group with its verbs; the program itself is a group.
struct VerbPage {
  std::string path;     // "atoll run show"
  std::string heading;  // under which the list of verbs has it; empty: "Verbs"
  std::string summary;  // a line of at most kSummaryColumns; no full stop
  std::string details;  // sentences; may be empty
  std::string example;  // a command that runs as it is printed; empty: of a group
  std::vector<OptionPage> options;
  std::vector<VerbPage> verbs;  // none that is hidden
};

// So that a list of verbs fits 80 columns.
inline constexpr size_t kSummaryColumns = 61;

inline constexpr absl::string_view kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 the call or the config is wrong.";

// What a list calls it: without the program's name, "run show".
std::string ShortName(const VerbPage& page);

// Its own word, "show".
std::string LastWord(const VerbPage& page);

// The verbs that do something, in order: without groups.
std::vector<const VerbPage*> Leaves(const VerbPage& page);

// What --help prints: lines of at most 80 columns. Of a group a line a verb, under headings.
std::string HelpText(const VerbPage& page);

// roff with the man macros, section 1: of a group all its verbs.
std::string ManPage(const VerbPage& page, absl::string_view version);

}  // namespace atolld
