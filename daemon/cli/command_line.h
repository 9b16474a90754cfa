// CommandLine: `atoll` as a tree of verbs, its help, and what is said to somebody who mistyped.
// Verb and Option: what one verb takes, and how its --help says it.
//
// Beside the verbs that are added, every program has help, completion and man, which are made from
// the tree itself (manual.h, completion.h). A number that is none, or too large, is refused in
// words that say what is wanted.
//
// CLI11 parses; of `atoll` only command_line.cc sees it, because its templates cost each file that
// includes it seconds to compile. Exit codes are one rule for all verbs (exit_code.h); an error is
// said in one line on standard error. What an option is bound to must live until the verb has run.
// One thread, once a process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compression/base/exit_code.h"
#include "daemon/cli/manual.h"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace atolld {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required() const;
  // Between these, both included, of the type that the value has. Defined in command_line.cc for
  // int, uint32_t, uint64_t and double.
  template <typename T>
  Option Range(T least, T most) const;
  Option Positive() const;
  Option NotEmpty() const;  // as what a script gives whose variable is not set
  Option OneOf(std::vector<std::string> names) const;
  // What it takes is a file, a folder, or either of them: help says so, and shells complete it.
  Option File() const;
  Option Folder() const;
  Option Path() const;
  Option Excludes(Option other) const;

 private:
  CLI::Option* option_;
};

class Verb {
 public:
  explicit Verb(CLI::App* app) : app_(app) {}

  // `name` as people type it ("--json") or, where its place says what it is, as the help calls it
  // ("PEER"). What `value` holds now is the default. Defined in command_line.cc for the types that
  // verbs have.
  template <typename T>
  Option Add(const std::string& name, T& value, const std::string& meaning = "") const;
  Option Flag(const std::string& name, bool& value, const std::string& meaning) const;

  void Hide() const;  // from the list of verbs

 private:
  CLI::App* app_;
};

// -----------------------------------------------------------------------------------------------

class CommandLine {
 public:
  explicit CommandLine(
      const std::string& program = "atoll",
      const std::string& summary = "Trains one model on many poorly connected machines");
  ~CommandLine();

  // The heading under which help lists the verbs and groups that are added from now on.
  void BeginHeading(const std::string& heading);

  // Adds the verb "run show" or "local", to which its options are added then. `summary`: a line of
  // at most kSummaryColumns without a full stop, then, after a line end, sentences. `example` runs
  // as it is printed, in the source tree, after `scripts/quickstart` has made build/quickstart.
  // `action` runs when the call is right and returns the exit code; what it binds must live until
  // Run has returned.
  Verb AddVerb(const std::string& path, const std::string& summary, const std::string& example,
               std::function<int()> action);

  // Names a group of verbs ("run"), before the first of them is added.
  void DescribeGroup(const std::string& name, const std::string& summary);

  // Without a verb it prints the help.
  int Run(int argc, char** argv);

  // What the tree says of itself, as far as it has been built.
  VerbPage Page() const;

 private:
  struct Leaf {
    std::string details;
    std::string example;
    std::function<int()> action;
  };

  void AddOwnVerbs();
  VerbPage PageOf(const CLI::App& app) const;
  // Prints the page that these words lead to, as `print` writes it.
  int PrintPage(const std::vector<std::string>& words,
                const std::function<std::string(const VerbPage&)>& print) const;
  // One line about what is wrong with the call.
  std::string Explain(const CLI::ParseError& error) const;

  const std::unique_ptr<CLI::App> app_;
  std::string heading_;
  std::map<const CLI::App*, Leaf> leaves_;
  std::vector<std::string> words_;  // that help and man are asked about
  std::string shell_;
};

// Says the error in one line on standard error; returns ExitCodeOf(status).
int Report(const absl::Status& status);

}  // namespace atolld
