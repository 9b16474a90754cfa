#include "daemon/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/names.h"

namespace atolld {

Option Option::Required() const { return Option(option_->required()); }

template <typename T>
Option Option::Range(T least, T most) const {
  return Option(option_->check(CLI::Range(least, most)));
}
template Option Option::Range(int, int) const;
template Option Option::Range(uint32_t, uint32_t) const;
template Option Option::Range(uint64_t, uint64_t) const;
template Option Option::Range(double, double) const;

Option Option::Positive() const { return Option(option_->check(CLI::PositiveNumber)); }

Option Option::OneOf(std::vector<std::string> names) const {
  return Option(option_->check(CLI::IsMember(std::move(names))));
}

Option Option::Excludes(Option other) const { return Option(option_->excludes(other.option_)); }

template <typename T>
Option Verb::Add(const std::string& name, T& value, const std::string& meaning) const {
  return Option(app_->add_option(name, value, meaning));
}
template Option Verb::Add(const std::string&, std::string&, const std::string&) const;
template Option Verb::Add(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Verb::Add(const std::string&, int&, const std::string&) const;
template Option Verb::Add(const std::string&, uint32_t&, const std::string&) const;
template Option Verb::Add(const std::string&, uint64_t&, const std::string&) const;
template Option Verb::Add(const std::string&, double&, const std::string&) const;
template Option Verb::Add(const std::string&, std::optional<int64_t>&, const std::string&) const;
template Option Verb::Add(const std::string&, std::optional<uint64_t>&, const std::string&) const;

Option Verb::Flag(const std::string& name, bool& value, const std::string& meaning) const {
  return Option(app_->add_flag(name, value, meaning));
}

void Verb::Hide() const { app_->group(""); }

// -----------------------------------------------------------------------------------------------

namespace {

// The verb that the call has reached.
const CLI::App* Deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::vector<std::string> VerbNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(absl::StrCat("--", name));
  }
  return names;
}

std::string FullName(const CLI::App* app) {
  std::string name = app->get_name();
  for (const CLI::App* up = app->get_parent(); up != nullptr; up = up->get_parent()) {
    name = absl::StrCat(up->get_name(), " ", name);
  }
  return name;
}

}  // namespace

CommandLine::CommandLine(const std::string& program, const std::string& summary)
    : app_(std::make_unique<CLI::App>(summary, program)) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", absl::StrCat(program, " ", ATOLL_VERSION));
  app_->footer("Exit codes: 0 done, 1 failed, 2 the call or the config is wrong.");
  app_->option_defaults()->always_capture_default();
}

CommandLine::~CommandLine() = default;

void CommandLine::DescribeGroup(const std::string& name, const std::string& summary) {
  app_->add_subcommand(name, summary)->require_subcommand(1);
}

Verb CommandLine::AddVerb(const std::string& path, const std::string& summary,
                          const std::string& example, std::function<int()> action) {
  const std::vector<std::string> words = absl::StrSplit(path, ' ');
  CLI::App* parent = app_.get();
  for (size_t i = 0; i + 1 < words.size(); ++i) parent = parent->get_subcommand(words[i]);
  CLI::App* verb = parent->add_subcommand(words.back(), summary);
  verb->footer(absl::StrCat("Example:\n  ", example));
  actions_[verb] = std::move(action);
  return Verb(verb);
}

std::string CommandLine::Explain(const CLI::ParseError& error) const {
  const CLI::App* verb = Deepest(app_.get());
  const std::string name = FullName(verb);
  const std::vector<std::string> verbs = VerbNames(*verb);
  const std::vector<std::string> extras = verb->remaining();
  if (!extras.empty()) {
    const std::string extra = extras.front().substr(0, extras.front().find('='));
    if (absl::StartsWith(extra, "-")) {
      return absl::StrCat(name, ": unknown option '", extra, "'",
                          Suggestion(extra, OptionNames(*verb)));
    }
    if (!verbs.empty()) {
      return absl::StrCat(name, ": unknown verb '", extra, "'", Suggestion(extra, verbs));
    }
    return absl::StrCat(name, ": '", extra, "' is one argument too many");
  }
  if (!verbs.empty()) {
    return absl::StrCat(name, ": a verb is needed: ", absl::StrJoin(verbs, ", "));
  }
  std::string reason = error.what();
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return absl::StrCat(name, ": ", reason);
}

int CommandLine::Run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // help or version
    return app_->exit(wanted);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s\n", Explain(error).c_str());
    return kWrongCall;
  }
  return actions_.at(Deepest(app_.get()))();
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kDone;
  const bool wrong =
      absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsAlreadyExists(status);
  return wrong ? kWrongCall : kFailed;
}

int Report(const absl::Status& status) { return Report(status, ExitCodeOf(status)); }

int Report(const absl::Status& status, int code) {
  std::string line(status.message());
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "%s\n", line.c_str());
  return code;
}

}  // namespace atolld
