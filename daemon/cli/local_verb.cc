// `atoll local` and `atoll config validate`: from a config file.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/cli/local_run.h"
#include "daemon/cli/verbs.h"
#include "daemon/config.h"

namespace atolld {

void AddLocalVerb(CommandLine& command_line) {
  const auto options = std::make_shared<LocalOptions>();
  CLI::App* verb = command_line.AddVerb(
      "local", "Train on this machine: a coordinator and its peers, from start to model",
      "atoll local --config configs/quickstart.toml --data my-text.txt --rounds 20",
      [options] { return RunLocal(*options); });
  verb->add_option("--config", options->config_path, "The run, a TOML file")->required();
  verb->add_option("--peers", options->peers, "How many peers, instead of the config's");
  verb->add_option("--rounds", options->rounds, "How many rounds, instead of the config's");
  verb->add_option("--data", options->data, "A text file or folder, instead of the config's");
  verb->add_option("--dir", options->dir,
                   "The run's folder; must be new or empty [./atoll-run-TIME]");
  verb->add_option("--json", options->json, "Write the report there; - for standard output");
  verb->add_option("--port", options->port, "The coordinator's port; 0 for a free one")
      ->check(CLI::Range(0, 65535));
}

void AddConfigVerbs(CommandLine& command_line) {
  struct Options {
    std::string file;
    std::string use = "any";
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* verb = command_line.AddVerb(
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
  verb->add_option("file", options->file, "The TOML file")->required();
  verb->add_option("--for", options->use,
                   "What it will be used for: keys that this needs must be there")
      ->check(CLI::IsMember({"any", "local", "coordinator", "peer"}));
  verb->add_flag("--json", options->json, "Print the result as JSON");
}

}  // namespace atolld
