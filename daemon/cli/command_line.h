// CommandLine: `atoll` as a tree of verbs, its help, and what is said to somebody who mistyped.
//
// Exit codes are one rule for all verbs: 0 done, 1 failed, 2 the call or the config is wrong, said
// in one line on standard error. One thread, once a process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/cli/verb.h"

namespace CLI {
class ParseError;
}  // namespace CLI

namespace atolld {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongCall = 2;

class CommandLine {
 public:
  CommandLine();
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

// Says the error in one line on standard error; returns `code`.
int Report(const absl::Status& status, int code);

}  // namespace atolld
