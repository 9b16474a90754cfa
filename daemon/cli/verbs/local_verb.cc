// `atoll local` and `atoll config validate`: from a config file.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/cli/local/local_run.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/config/config.h"

namespace atolld {

void AddLocalVerb(CommandLine& command_line) {
  const auto options = std::make_shared<LocalOptions>();
  const Verb verb = command_line.AddVerb(
      "local", "Train on this machine: a coordinator and its peers, from start to model",
      "atoll local --config configs/quickstart.toml --data my-text.txt --rounds 20",
      [options] { return RunLocal(*options); });
  verb.Add("--config", options->config_path, "The run, a TOML file").Required();
  verb.Add("--peers", options->peers, "How many peers, instead of the config's");
  verb.Add("--rounds", options->rounds, "How many rounds, instead of the config's");
  verb.Add("--data", options->data, "A text file or folder, instead of the config's");
  verb.Add("--dir", options->dir, "The run's folder; must be new or empty [./atoll-run-TIME]");
  verb.Add("--json", options->json, "Write the report there; - for standard output");
  verb.Add("--port", options->port, "The coordinator's port; 0 for a free one").Range(0, 65535);
}

void AddConfigVerbs(CommandLine& command_line) {
  struct Options {
    std::string file;
    std::string use = "any";
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  const Verb verb = command_line.AddVerb(
      "config validate", "Check a config file, without running anything",
      "atoll config validate configs/quickstart.toml --for local", [options] {
        const std::map<std::string, ConfigUse> uses = {{"any", ConfigUse::kAny},
                                                       {"local", ConfigUse::kLocal},
                                                       {"coordinator", ConfigUse::kCoordinator},
                                                       {"peer", ConfigUse::kPeer}};
        const absl::Status status = LoadConfig(options->file, uses.at(options->use)).status();
        if (options->json) {
          nlohmann::ordered_json json = {{"file", options->file}, {"valid", status.ok()}};
          if (!status.ok()) json["error"] = std::string(status.message());
          std::printf(
              "%s\n",
              json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
        } else if (status.ok()) {
          std::printf("%s is valid\n", options->file.c_str());
        }
        if (status.ok()) return kDone;
        return options->json ? kWrongCall : Report(status, kWrongCall);
      });
  verb.Add("file", options->file, "The TOML file").Required();
  verb.Add("--for", options->use, "What it will be used for: keys that this needs must be there")
      .OneOf({"any", "local", "coordinator", "peer"});
  verb.Flag("--json", options->json, "Print the result as JSON");
}

}  // namespace atolld
