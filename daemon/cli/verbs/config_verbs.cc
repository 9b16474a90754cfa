// `atoll config`: checks config files, and prints them with what the table of keys says.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/config/config.h"

namespace atolld {
namespace {

// More than any config may have, so that what is cut off here is refused there.
constexpr size_t kReadAtMost = size_t{2} << 20;

// A file, or with "-" standard input, whose relative paths start at the working directory.
absl::StatusOr<Config> ReadConfig(const std::string& file, ConfigUse use) {
  if (file != "-") return LoadConfig(file, use);
  std::string text(kReadAtMost, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  std::error_code error;
  return ParseConfig(text, "standard input", std::filesystem::current_path(error).string(), use);
}

// What any use of it needs and a config for no use in particular does not have to have: the file
// that a run begins with. The data may be another machine's.
absl::Status CheckNamedFiles(const Config& config) {
  const std::pair<const char*, const std::string&> files[] = {{"initial", config.model.initial},
                                                              {"base", config.model.base}};
  for (const auto& [key, path] : files) {
    std::error_code error;
    if (path.empty() || std::filesystem::is_regular_file(path, error)) continue;
    return absl::InvalidArgumentError(absl::StrCat("[model] ", key, " '", path,
                                                   "' is no file that exists on this machine; "
                                                   "`atoll import` makes one"));
  }
  return absl::OkStatus();
}

struct ValidateOptions {
  std::string file;
  std::string use = "any";
  bool json = false;
};

int Validate(const ValidateOptions& options) {
  const std::map<std::string, ConfigUse> uses = {{"any", ConfigUse::kAny},
                                                 {"local", ConfigUse::kLocal},
                                                 {"coordinator", ConfigUse::kCoordinator},
                                                 {"peer", ConfigUse::kPeer}};
  const absl::StatusOr<Config> config = ReadConfig(options.file, uses.at(options.use));
  absl::Status status = config.status();
  if (status.ok()) status = CheckNamedFiles(*config);
  if (status.ok()) status = CheckDataSize(*config);
  const std::string file = options.file == "-" ? "standard input" : options.file;
  if (options.json) {
    nlohmann::ordered_json json = {{"file", file}, {"valid", status.ok()}};
    if (!status.ok()) json["error"] = std::string(status.message());
    std::printf("%s\n",
                json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else if (status.ok()) {
    std::printf("%s is valid\n", file.c_str());
  }
  if (status.ok()) return kDone;
  return options.json ? kWrongCall : Report(status, kWrongCall);
}

struct PrintOptions {
  std::string file;
  bool defaults = false;
  bool markdown = false;
};

int PrintTable(const PrintOptions& options) {
  std::string text;
  if (options.markdown) {
    text = ConfigMarkdown();
  } else if (options.file.empty()) {
    text = PrintDefaultConfig();
  } else {
    const absl::StatusOr<Config> config = ReadConfig(options.file, ConfigUse::kAny);
    if (!config.ok()) return Report(config.status(), kWrongCall);
    text = PrintConfig(*config);
  }
  std::fputs(text.c_str(), stdout);
  return kDone;
}

}  // namespace

void AddConfigVerbs(CommandLine& command_line) {
  const auto options = std::make_shared<ValidateOptions>();
  const Verb verb =
      command_line.AddVerb("config validate", "Check a config file, without running anything",
                           "atoll config validate configs/quickstart.toml --for local",
                           [options] { return Validate(*options); });
  verb.Add("FILE", options->file, "The TOML file; - for standard input").File().Required();
  verb.Add("--for", options->use, "What it will be used for: keys that this needs must be there")
      .OneOf({"any", "local", "coordinator", "peer"});
  verb.Flag("--json", options->json, "Print the result as JSON");

  const auto print = std::make_shared<PrintOptions>();
  const Verb print_verb = command_line.AddVerb("config print",
                                               "Print a complete config, with what each key means\n"
                                               "And when to change it.",
                                               "atoll config print --defaults >my-run.toml",
                                               [print] { return PrintTable(*print); });
  const Option file =
      print_verb
          .Add("FILE", print->file,
               "The TOML file to print, complete; - for standard input [the defaults]")
          .File();
  const Option defaults =
      print_verb.Flag("--defaults", print->defaults, "Print every key with its default");
  const Option markdown = print_verb.Flag("--markdown", print->markdown,
                                          "Print docs/config.md instead, a page about every key");
  defaults.Excludes(file);
  markdown.Excludes(file);
  markdown.Excludes(defaults);
}

}  // namespace atolld
