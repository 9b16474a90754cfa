// CommandLine: `atoll` as a tree of verbs, its help, and what is said to somebody who mistyped.
// Verb and Option: what one verb takes, and how its --help says it.
//
// CLI11 parses; of `atoll` only command_line.cc sees it, because its templates cost each file that
// includes it seconds to compile. Exit codes are one rule for all verbs: 0 done, 1 failed, 2 the
// call or the config is wrong, said in one line on standard error. What an option is bound to must
// live until the verb has run. One thread, once a process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

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
  Option OneOf(std::vector<std::string> names) const;
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

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongCall = 2;

class CommandLine {
 public:
  explicit CommandLine(
      const std::string& program = "atoll",
      const std::string& summary = "Trains one model on many poorly connected machines.");
  ~CommandLine();

  // Adds the verb "run show" or "local", to which its options are added then. `action` runs when
  // the call is right and returns the exit code; what it binds must live until Run has returned.
  Verb AddVerb(const std::string& path, const std::string& summary, const std::string& example,
               std::function<int()> action);

  // Names a group of verbs ("run"), before the first of them is added.
  void DescribeGroup(const std::string& name, const std::string& summary);

  int Run(int argc, char** argv);

 private:
  // One line about what is wrong with the call.
  std::string Explain(const CLI::ParseError& error) const;

  const std::unique_ptr<CLI::App> app_;
  std::map<const CLI::App*, std::function<int()>> actions_;
};

// One kind of error has one code, whatever verb meets it: kWrongCall where the call or the config
// names what makes no sense, is not there, or must not be overwritten; else kFailed.
int ExitCodeOf(const absl::Status& status);

// Says the error in one line on standard error; returns `code`, or ExitCodeOf(status).
int Report(const absl::Status& status, int code);
int Report(const absl::Status& status);

}  // namespace atolld
