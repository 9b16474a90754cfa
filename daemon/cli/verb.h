// Verb: what one verb of `atoll` takes, and how its --help says it.
//
// CLI11 parses; of `atoll` only verb.cc and command_line.cc see it, because its templates cost each
// file that includes it seconds to compile. What an option is bound to must live until the verb has
// run. One thread.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace atolld {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required() const;
  // Between these, both included, of the type that the value has. Defined in verb.cc for int,
  // uint32_t, uint64_t and double.
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
  // ("PEER"). What `value` holds now is the default. Defined in verb.cc for the types that verbs
  // have.
  template <typename T>
  Option Add(const std::string& name, T& value, const std::string& meaning = "") const;
  Option Flag(const std::string& name, bool& value, const std::string& meaning) const;

  void Hide() const;  // from the list of verbs

 private:
  CLI::App* app_;
};

}  // namespace atolld
