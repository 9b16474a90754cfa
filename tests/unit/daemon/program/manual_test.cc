#include "daemon/program/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/cli/verbs/verbs.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

VerbPage ProgramPage() {
  CommandLine command_line;
  AddAllVerbs(command_line);
  return command_line.Page();
}

TEST(ManualTest, ListsVerbsUnderHeadingsALineEach) {
  // Broken: who types `atoll` would not see at a glance what there is.
  const VerbPage page = ProgramPage();
  const std::string text = HelpText(page);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 80u);
  EXPECT_THAT(text, HasSubstr("\nTrain, look on, give orders:\n  local "));
  EXPECT_THAT(text, HasSubstr("\n  run show         Show how a run stands\n"));
  EXPECT_THAT(text, Not(HasSubstr("exchange-peer")));
  for (const VerbPage* verb : Leaves(page)) {
    EXPECT_LE(verb->summary.size(), kSummaryColumns) << verb->path;
    EXPECT_THAT(text, ContainsRegex(absl::StrCat("\n  ", ShortName(*verb), "[ \n]"))) << verb->path;
    EXPECT_THAT(text, HasSubstr(absl::StrCat("  ", verb->summary, "\n"))) << verb->path;
  }
}

TEST(ManualTest, HelpOfAVerbSaysWhatItTakes) {
  // Broken: an option's value, limits or default would have to be guessed.
  VerbPage page;
  page.path = "atoll plan";
  page.summary = "Predict a round";
  page.details = "For each codec.";
  page.example = "atoll plan --peers 8";
  page.options = {{"--peers", "N", "How many", "1 to 64", "4", {}, false, true, false},
                  {"--seed", "N", "Of faults [drawn]", "above 0", "0", {}, false, false, false},
                  {"--for", "a|b", "What for", "", "", {"a", "b"}, false, false, false},
                  {"--json", "", "Print as JSON", "", "", {}, false, false, false},
                  {"FILE", "FILE", "The run", "", "", {}, true, false, false}};
  EXPECT_EQ(HelpText(page), R"(Usage: atoll plan --peers N [OPTIONS] [FILE]

Predict a round. For each codec.

Arguments:
  FILE  The run

Options:
  --peers N  How many (1 to 64); required [4]
  --seed N   Of faults (above 0) [drawn]
  --for a|b  What for
  --json     Print as JSON

Example:
  atoll plan --peers 8

Exit codes: 0 done, 1 failed, 2 the call or the config is wrong.
)");
}

TEST(ManualTest, ManPagesAreSoundRoff) {
  // Broken: a line that begins with a dot or a quote would be a request and vanish, a backslash an
  // escape, and a hyphen would be pasted as another character.
  const VerbPage page = ProgramPage();
  const std::string text = ManPage(page, "1.2.3");
  EXPECT_THAT(text, StartsWith(".TH ATOLL 1 \"\" \"atoll 1.2.3\""));
  for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n.SH ", section, "\n")));
  }
  for (const VerbPage* verb : Leaves(page)) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n.SS ", verb->path.substr(0, 8)))) << verb->path;
  }
  const std::set<std::string> requests = {".TH", ".SH", ".SS", ".TP", ".B", ".BR",
                                          ".PP", ".RS", ".RE", ".EX", ".EE"};
  for (const absl::string_view view : absl::StrSplit(text, '\n')) {
    const std::string line(view);
    EXPECT_THAT(line, Not(StartsWith("'")));
    const std::string word = line.substr(0, line.find(' '));
    EXPECT_TRUE(line[0] != '.' || requests.count(word) == 1) << line;
    for (size_t i = line.find('\\'); i != std::string::npos; i = line.find('\\', i + 2)) {
      EXPECT_THAT("e-&(", HasSubstr(line.substr(i + 1, 1))) << line;
    }
    EXPECT_EQ(absl::StrJoin(absl::StrSplit(line, "\\-"), "").find('-'), std::string::npos) << line;
  }
  VerbPage odd;
  odd.path = "atoll odd";
  odd.summary = ".local 'files' of C:\\x";
  EXPECT_THAT(ManPage(odd, "1"), HasSubstr("\n\\&.local \\(aqfiles\\(aq of C:\\ex.\n"));
}

TEST(ManualTest, GroffHasNothingToSay) {
  // Broken: `man atoll` would warn, or leave something out.
  if (std::system("command -v groff >/dev/null") != 0) GTEST_SKIP() << "needs groff";
  const TemporaryDirectory directory;
  const std::string page = directory.File("atoll.1");
  std::ofstream(page) << ManPage(ProgramPage(), "1.2.3");
  const std::string errors = directory.File("errors");
  EXPECT_EQ(std::system(absl::StrCat("groff -man -ww -Tascii ", page, " >", directory.File("out"),
                                     " 2>", errors)
                            .c_str()),
            0);
  std::ifstream said(errors);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(said), {}), "");
  EXPECT_GT(std::filesystem::file_size(directory.File("out")), 10000u);
}

TEST(ManualTest, WhatTakesPathsSaysSo) {
  // Broken: shells would not complete files where an option takes them.
  const VerbPage page = ProgramPage();
  for (const VerbPage* verb : Leaves(page)) {
    for (const OptionPage& option : verb->options) {
      if (option.value.empty()) continue;
      const std::string meaning = option.meaning.substr(0, option.meaning.find(" ["));
      const bool names_path =
          absl::StrContains(meaning, "file") || absl::StrContains(meaning, "folder");
      const bool path =
          option.value == "FILE" || option.value == "FOLDER" || option.value == "PATH";
      EXPECT_TRUE(path || !names_path || !option.choices.empty() || option.value == "N")
          << verb->path << " " << option.name << ": " << option.meaning;
    }
  }
}

}  // namespace
}  // namespace atolld
