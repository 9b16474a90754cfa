#include "daemon/program/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/program/completion.h"

namespace atolld {
namespace {

// Returns the message for a refused value; the name of its option is put before it.
std::string Refused(const std::string& value, absl::string_view why) {
  return absl::StrCat("'", value, "' ", why);
}

template <typename T>
std::string Limits(T least, T most) {
  return absl::StrCat(least, " to ", most);
}

// Reads the number as CLI11 does, for which a leading 0 does not mean octal digits.
CLI::Validator WholeNumberUpTo(uint64_t most) {
  return CLI::Validator(
      [most](std::string& text) {
        const absl::StatusOr<uint64_t> number = ParseWholeNumber(text, 0, most);
        if (!number.ok()) return std::string(number.status().message());
        text = absl::StrCat(*number);
        return std::string();
      },
      "");
}

CLI::Validator AnyNumber() {
  return CLI::Validator(
      [](std::string& text) { return std::string(ParseNumber(text).status().message()); }, "");
}

template <typename T>
struct Held {
  using Type = T;
};
template <typename T>
struct Held<std::optional<T>> {
  using Type = T;
};

// The help's name for a value of this type, and the message for a value that is not one.
template <typename T>
void NameValue(CLI::Option* option) {
  using Type = typename Held<T>::Type;
  if constexpr (std::is_integral_v<Type>) {
    option->type_name("N");
    option->transform(WholeNumberUpTo(static_cast<uint64_t>(std::numeric_limits<Type>::max())));
  } else if constexpr (std::is_floating_point_v<Type>) {
    option->type_name("NUMBER");
    option->transform(AnyNumber());
  } else {
    option->type_name("TEXT");
  }
}

}  // namespace

Option Option::Required() const { return Option(option_->required()); }

template <typename T>
Option Option::Range(T least, T most) const {
  const auto check = [least, most](const std::string& text) {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) {
      return std::string();
    }
    return Refused(text, absl::StrCat("is not within ", Limits(least, most)));
  };
  return Option(option_->check(check, Limits(least, most)));
}
template Option Option::Range(int, int) const;
template Option Option::Range(uint32_t, uint32_t) const;
template Option Option::Range(uint64_t, uint64_t) const;
template Option Option::Range(double, double) const;

Option Option::Positive() const {
  const auto check = [](const std::string& text) {
    const absl::StatusOr<double> number = ParseNumber(text);
    return number.ok() && *number > 0 ? std::string() : Refused(text, "is not above 0");
  };
  return Option(option_->check(check, "above 0"));
}

Option Option::NotEmpty() const {
  return Option(option_->check(
      CLI::Validator([](std::string& text) { return text.empty() ? "it is empty" : ""; }, "")));
}

Option Option::OneOf(std::vector<std::string> names) const {
  const std::string choices = absl::StrCat("{", absl::StrJoin(names, ","), "}");
  const auto check = [names = std::move(names)](const std::string& text) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
    const std::string near = LikelyName(text, names);
    return Refused(text,
                   absl::StrCat("is not one of ", absl::StrJoin(names, ", "),
                                near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?")));
  };
  return Option(option_->check(check, choices));
}

Option Option::File() const { return Option(option_->type_name(kFileValue)); }
Option Option::Folder() const { return Option(option_->type_name(kFolderValue)); }
Option Option::Path() const { return Option(option_->type_name(kPathValue)); }

Option Option::Excludes(Option other) const { return Option(option_->excludes(other.option_)); }

template <typename T>
Option Verb::Add(const std::string& name, T& value, const std::string& meaning) const {
  CLI::Option* const option = app_->add_option(name, value, meaning);
  NameValue<T>(option);
  return Option(option);
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

// Returns the verb that the call has reached.
const CLI::App* Deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

bool IsHidden(const CLI::App& app) { return app.get_group().empty(); }

std::vector<const CLI::App*> ShownVerbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !IsHidden(*verb); });
}

std::vector<std::string> VerbNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : ShownVerbs(app)) {
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

// Returns CLI11's information about an option; its validators' descriptions are the limits and
// choices.
OptionPage OptionPageOf(const CLI::Option& option) {
  OptionPage page;
  page.positional = option.get_positional();
  page.name = page.positional ? option.get_name(/*positional=*/true)
                              : absl::StrCat("--", option.get_lnames().front());
  page.meaning = option.get_description();
  page.required = option.get_required();
  page.repeated = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return page;  // a flag
  const std::vector<std::string> type = absl::StrSplit(option.get_type_name(), ':');
  page.value = type.front();
  for (size_t i = 1; i < type.size(); ++i) {
    absl::string_view described = type[i];
    if (absl::ConsumePrefix(&described, "{") && absl::ConsumeSuffix(&described, "}")) {
      page.choices = absl::StrSplit(described, ',');
      page.value = absl::StrJoin(page.choices, "|");
    } else {
      page.limits = type[i];
    }
  }
  const std::string otherwise = option.get_default_str();
  if (otherwise != "[]" && otherwise != "{}") page.otherwise = otherwise;
  return page;
}

}  // namespace

CommandLine::CommandLine(const std::string& program, const std::string& summary)
    : app_(std::make_unique<CLI::App>(summary, program)) {
  app_->require_subcommand(0, 1);
  app_->set_version_flag("--version", absl::StrCat(program, " ", ATOLL_VERSION), "Say which it is");
  app_->option_defaults()->always_capture_default();
}

CommandLine::~CommandLine() = default;

void CommandLine::DescribeBuild(const std::string& text) {
  app_->set_version_flag("--version", text, "Say which it is");
}

void CommandLine::BeginHeading(const std::string& heading) { heading_ = heading; }

void CommandLine::DescribeGroup(const std::string& name, const std::string& summary) {
  CLI::App* const group = app_->add_subcommand(name, summary);
  group->require_subcommand(1);
  if (!heading_.empty()) group->group(heading_);
}

Verb CommandLine::AddVerb(const std::string& path, const std::string& summary,
                          const std::string& example, std::function<VerbExit()> action) {
  const std::vector<std::string> words = absl::StrSplit(path, ' ');
  CLI::App* parent = app_.get();
  for (size_t i = 0; i + 1 < words.size(); ++i) parent = parent->get_subcommand(words[i]);
  const std::pair<std::string, std::string> said =
      absl::StrSplit(summary, absl::MaxSplits('\n', 1));
  CLI::App* verb = parent->add_subcommand(words.back(), said.first);
  if (!heading_.empty() && parent == app_.get()) verb->group(heading_);
  leaves_[verb] = {said.second, example, std::move(action)};
  return Verb(verb);
}

void CommandLine::AddOwnVerbs() {
  const std::string program = app_->get_name();
  const std::string some = Leaves(Page()).front()->path.substr(program.size() + 1);
  BeginHeading("Help");
  AddVerb("help", "Say what there is, or how to use a verb", absl::StrCat(program, " help ", some),
          [this] { return PrintPage(words_, HelpText); })
      .Add("VERB", words_, "The words of a verb or of a group");
  AddVerb("completion",
          "Print the completion script of a shell\n"
          "It completes verbs, options, and files where an option takes them. `cmake --install` "
          "puts it where shells look for it.",
          absl::StrCat("eval \"$(", program, " completion bash)\""),
          [this] {
            const VerbPage page = Page();
            const std::string script = shell_ == "zsh" ? ZshCompletion(page) : BashCompletion(page);
            std::fputs(script.c_str(), stdout);
            return kDone;
          })
      .Add("SHELL", shell_, "Whose")
      .OneOf({"bash", "zsh"})
      .Required();
  AddVerb("man",
          "Print a man page, of all verbs or of one\n"
          "As roff: `man -l FILE` shows it.",
          absl::StrCat(program, " man >", program, ".1"),
          [this] {
            return PrintPage(words_,
                             [](const VerbPage& page) { return ManPage(page, ATOLL_VERSION); });
          })
      .Add("VERB", words_, "The words of a verb or of a group");
}

int CommandLine::PrintPage(const std::vector<std::string>& words,
                           const std::function<std::string(const VerbPage&)>& print) const {
  VerbPage page = Page();
  for (const std::string& word : words) {
    const std::string path = absl::StrCat(page.path, " ", word);
    std::vector<std::string> names;
    for (VerbPage& verb : page.verbs) {
      if (verb.path == path) {
        VerbPage found = std::move(verb);
        page = std::move(found);
        break;
      }
      names.push_back(LastWord(verb));
    }
    if (page.path == path) continue;
    return Report(absl::InvalidArgumentError(
        names.empty()
            ? absl::StrCat(page.path, ": '", word, "' is one word too many")
            : absl::StrCat(page.path, ": unknown verb '", word, "'", Suggestion(word, names))));
  }
  std::fputs(print(page).c_str(), stdout);
  return kDone;
}

VerbPage CommandLine::Page() const { return PageOf(*app_); }

VerbPage CommandLine::PageOf(const CLI::App& app) const {
  VerbPage page;
  page.path = FullName(&app);
  page.summary = app.get_description();
  const std::string group = app.get_group();
  if (group != CLI::App().get_group()) page.heading = group;
  const auto leaf = leaves_.find(&app);
  if (leaf != leaves_.end()) {
    page.details = leaf->second.details;
    page.example = leaf->second.example;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option != app.get_help_ptr()) page.options.push_back(OptionPageOf(*option));
  }
  for (const CLI::App* verb : ShownVerbs(app)) page.verbs.push_back(PageOf(*verb));
  return page;
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
  if (error.get_name() == "ArgumentMismatch") {
    const std::string option = reason.substr(0, reason.find(':'));
    const bool twice = absl::StrContains(reason, "received");
    return absl::StrCat(name, ": ", option, twice ? " is given more than once" : " needs a value");
  }
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return absl::StrCat(name, ": ", reason);
}

int CommandLine::Run(int argc, char** argv) {
  AddOwnVerbs();
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(HelpText(PageOf(*Deepest(app_.get()))).c_str(), stdout);
    return kDone;
  } catch (const CLI::Success& wanted) {  // the version
    return app_->exit(wanted);
  } catch (const CLI::ParseError& error) {
    PrintLine(stderr, Explain(error));
    return kWrongCall;
  }
  const auto leaf = leaves_.find(Deepest(app_.get()));
  if (leaf == leaves_.end()) return PrintPage({}, HelpText);
  const VerbExit exit = leaf->second.action();
  return exit.ok() ? *exit : Report(exit.status());
}

int Report(const absl::Status& status) {
  std::string line(status.message());
  std::replace(line.begin(), line.end(), '\n', ' ');
  PrintLine(stderr, line);
  return ExitCodeOf(status);
}

}  // namespace atolld
