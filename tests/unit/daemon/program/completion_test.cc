#include "daemon/program/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/program/format.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// What the shell prints.
std::string Shell(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0) text.append(buffer, got);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() {
    CommandLine command_line;
    AddAllVerbs(command_line);
    VerbPage page = command_line.Page();
    VerbPage help;
    help.path = "atoll help";
    help.options = {{"VERB", "TEXT", "", "", "", {}, true, false, true}};
    page.verbs.push_back(help);
    script_ = directory_.path() + "/completion";
    std::ofstream(script_) << BashCompletion(page);
    zsh_ = ZshCompletion(page);
  }

  // What bash offers for the last of these words.
  std::vector<std::string> Offered(const std::vector<std::string>& words) {
    const std::string test = absl::StrCat("set -u; cd ", ShellCommand({directory_.path()}), "; . ",
                                          ShellCommand({script_}), "; COMP_WORDS=(",
                                          ShellCommand(words), "); COMP_CWORD=", words.size() - 1,
                                          "; _atoll; printf '%s\\n' \"${COMPREPLY[@]}\"");
    return absl::StrSplit(Shell(ShellCommand({"bash", "-c", test})), '\n', absl::SkipEmpty());
  }

  TemporaryDirectory directory_;
  std::string script_;
  std::string zsh_;
};

TEST_F(CompletionTest, BashOffersVerbsAndOptions) {
  // Broken: the shell would offer nothing, or what the program does not take.
  EXPECT_EQ(Shell(ShellCommand({"bash", "-n", script_})), "");
  EXPECT_THAT(
      Shell(ShellCommand(
          {"bash", "-c", absl::StrCat(". ", ShellCommand({script_}), "; complete -p atoll")})),
      HasSubstr("-F _atoll atoll"));
  EXPECT_THAT(Offered({"atoll", ""}),
              IsSupersetOf({"local", "run", "peer", "status", "pause", "finish", "resume", "limits",
                            "health", "help"}));
  EXPECT_THAT(Offered({"atoll", "run", ""}),
              ElementsAre("show", "watch", "diagnose", "metrics", "pause", "resume", "stop",
                          "branch", "publish"));
  EXPECT_THAT(Offered({"atoll", "run", "sh"}), ElementsAre("show"));
  EXPECT_THAT(Offered({"atoll", "limits", ""}), ElementsAre("show", "set"));
  EXPECT_THAT(Offered({"atoll", "experiment", ""}), IsSupersetOf({"partition", "availability"}));
  EXPECT_THAT(Offered({"atoll", "help", "run", "sh"}), ElementsAre("show"));
  EXPECT_THAT(Offered({"atoll", "run", "show", "--js"}), ElementsAre("--json"));
  EXPECT_THAT(Offered({"atoll", "local", "--"}), IsSupersetOf({"--config", "--rounds", "--help"}));
  EXPECT_THAT(Offered({"atoll", "bench", "ex"}), ElementsAre("exchange"));  // not exchange-peer
  EXPECT_THAT(Offered({"atoll", "no", "such", ""}), Not(Contains("show")));
}

TEST_F(CompletionTest, BashOffersValues) {
  // Broken: files would have to be typed, or be offered for what takes none.
  std::ofstream(directory_.path() + "/a file.toml") << "x";
  Shell(ShellCommand({"mkdir", directory_.path() + "/a-folder"}));
  EXPECT_THAT(Offered({"atoll", "local", "--config", "a"}),
              UnorderedElementsAre("a file.toml", "a-folder"));
  EXPECT_THAT(Offered({"atoll", "local", "--config", "=", "a"}),
              UnorderedElementsAre("a file.toml", "a-folder"));
  EXPECT_THAT(Offered({"atoll", "local", "--dir", "a"}), ElementsAre("a-folder"));
  EXPECT_THAT(Offered({"atoll", "config", "validate", "a"}),
              UnorderedElementsAre("a file.toml", "a-folder"));
  EXPECT_THAT(Offered({"atoll", "config", "validate", "--for", "lo"}), ElementsAre("local"));
  EXPECT_THAT(Offered({"atoll", "local", "--rounds", ""}), IsEmpty());
  // The value of an option is no verb.
  EXPECT_THAT(Offered({"atoll", "generate", "--prompt", "run", "--to"}),
              ElementsAre("--tokens", "--top-k", "--top-p", "--tokenizer"));
}

TEST_F(CompletionTest, ZshHasTheSame) {
  // Broken: zsh would offer something else than bash, or its quotes would not match.
  EXPECT_THAT(zsh_, ::testing::StartsWith("#compdef atoll\n"));
  EXPECT_THAT(zsh_, HasSubstr("'show:Show how a run stands'"));
  EXPECT_THAT(zsh_, HasSubstr("'atoll local --config') echo 'FILE' ;;"));
  EXPECT_THAT(zsh_, HasSubstr("'--rounds:How many rounds, instead of the config'\\''s'"));
  if (std::system("command -v zsh >/dev/null") != 0) return;
  std::ofstream(directory_.path() + "/_atoll") << zsh_;
  EXPECT_EQ(Shell(ShellCommand({"zsh", "-n", directory_.path() + "/_atoll"})), "");
}

}  // namespace
}  // namespace atolld
