// CommandLine: the command `atoll` as a tree of verbs, with help texts and with messages about
// mistyped calls. Verb and Option declare the arguments of one verb and their help.
//
// Besides the verbs that are added, every program has the verbs help, completion and man, which are
// made from the tree (manual.h, completion.h). If a number is expected and the text is not a
// number, or is one that is too large, the call is refused; the message says what is expected.
//
// CLI11 parses the arguments. Only command_line.cc includes it, because its templates take seconds
// to compile in each file. The exit codes of all verbs follow one rule (exit_code.h), and every
// error is one line on standard error. A variable that is bound to an option must live until the
// verb has run. Used by one thread, and only once in a process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compression/base/exit_code.h"
#include "daemon/program/manual.h"

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
  // Limits the value to [least, most]. T must be the type of the option's variable. Defined in
  // command_line.cc for int, uint32_t, uint64_t and double.
  template <typename T>
  Option Range(T least, T most) const;
  Option Positive() const;
  Option NotEmpty() const;  // refuses an empty text, such as that of a script's unset variable
  Option OneOf(std::vector<std::string> names) const;
  // Say that the option takes a file, a folder, or either of them. Help says so, and shells
  // complete the names.
  Option File() const;
  Option Folder() const;
  Option Path() const;
  Option Excludes(Option other) const;

 private:
  CLI::Option* option_;
};

// What a verb returns: the exit code, or an error that is still to be told.
using VerbExit = absl::StatusOr<int>;

class Verb {
 public:
  explicit Verb(CLI::App* app) : app_(app) {}

  // `name` is what people type ("--json") or, for a positional argument, its name in the help
  // ("PEER"). The current content of `value` is the default. Defined in command_line.cc for the
  // types that verbs use.
  template <typename T>
  Option Add(const std::string& name, T& value, const std::string& meaning = "") const;
  Option Flag(const std::string& name, bool& value, const std::string& meaning) const;

  void Hide() const;  // hides the verb from the list of verbs

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

  // Begins a heading. Help lists the verbs and groups that are added after this call under it.
  void BeginHeading(const std::string& heading);

  // Adds a verb such as "run show" or "local"; its options are added to the returned Verb.
  // `summary` is a line of at most kSummaryColumns without a full stop; sentences may follow after
  // a newline. `example` is a command that runs as printed in the source tree once
  // `scripts/quickstart` has made build/quickstart. `action` runs if the call is valid; if it
  // returns an error, Run reports that. The variables that it refers to must live until Run has
  // returned.
  Verb AddVerb(const std::string& path, const std::string& summary, const std::string& example,
               std::function<VerbExit()> action);

  // Describes a group of verbs ("run"). Call it before the group's first verb is added.
  void DescribeGroup(const std::string& name, const std::string& summary);

  // Makes --version print `text` instead of the program's name and version (BuildInfo).
  void DescribeBuild(const std::string& text);

  // Runs the verb and returns the exit code. Without a verb it prints the help.
  int Run(int argc, char** argv);

  // Returns the manual's page of the whole tree, with the verbs added so far.
  VerbPage Page() const;

 private:
  struct Leaf {
    std::string details;
    std::string example;
    std::function<VerbExit()> action;
  };

  void AddOwnVerbs();
  VerbPage PageOf(const CLI::App& app) const;
  // Prints the page of the verb or group that these words name, formatted by `print`.
  int PrintPage(const std::vector<std::string>& words,
                const std::function<std::string(const VerbPage&)>& print) const;
  // Returns one line about what is wrong with the call.
  std::string Explain(const CLI::ParseError& error) const;

  const std::unique_ptr<CLI::App> app_;
  std::string heading_;
  std::map<const CLI::App*, Leaf> leaves_;
  std::vector<std::string> words_;  // the arguments of help and man
  std::string shell_;
};

// Prints the error in one line on standard error, and returns ExitCodeOf(status).
int Report(const absl::Status& status);

}  // namespace atolld
