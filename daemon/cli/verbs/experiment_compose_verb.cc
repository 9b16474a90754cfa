// `atoll experiment compose`: an experiment as a file for docker compose.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/experiment/compose_file.h"
#include "daemon/experiment/experiment_file.h"

namespace atolld {
namespace {

struct ComposeVerbOptions {
  std::string file;
  std::string setting;  // empty: the first
  uint64_t seed = 0;    // 0: the first
  std::string out = "docker-compose.yml";
  bool json = false;
};

absl::StatusOr<size_t> SettingNamed(const Experiment& experiment, const std::string& name) {
  if (name.empty()) return 0;
  std::vector<std::string> names;
  for (size_t i = 0; i < experiment.settings.size(); ++i) {
    if (experiment.settings[i].name == name) return i;
    names.push_back(experiment.settings[i].name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(experiment.path, " has no setting '", name, "'", Suggestion(name, names)));
}

struct WrittenCompose {
  std::string setting;
  uint64_t seed = 0;
  uint32_t peers = 0;
  std::vector<std::string> files;
};

absl::StatusOr<WrittenCompose> ComposeOf(const ComposeVerbOptions& options) {
  // Compose tells YAML by the name.
  if (!absl::EndsWith(options.out, ".yml") && !absl::EndsWith(options.out, ".yaml")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out '", options.out, "': a name that ends in .yml or .yaml"));
  }
  ASSIGN_OR_RETURN(const Experiment experiment, ReadExperiment(options.file));
  ASSIGN_OR_RETURN(const size_t setting, SettingNamed(experiment, options.setting));
  WrittenCompose written;
  written.setting = experiment.settings[setting].name;
  written.seed = options.seed != 0 ? options.seed : experiment.seeds.at(0);
  ASSIGN_OR_RETURN(const ComposeFiles files,
                   MakeCompose(experiment, setting, written.seed, ComposeFolder(options.out)));
  written.peers = files.peers;
  ASSIGN_OR_RETURN(written.files, WriteCompose(files, options.out));
  return written;
}

int PrintCompose(const ComposeVerbOptions& options) {
  const absl::StatusOr<WrittenCompose> written = ComposeOf(options);
  if (!written.ok()) return Report(written.status());
  if (options.json) {
    PrintJson({{"setting", written->setting},
               {"seed", written->seed},
               {"peers", written->peers},
               {"files", written->files}});
    return kDone;
  }
  PrintLine(stdout, absl::StrCat(written->setting, ", seed ", written->seed, ": a coordinator and ",
                                 Counted(written->peers, "peer")));
  PrintLines(written->files);
  PrintLine(stdout, absl::StrCat("start it: docker compose -f ", options.out, " up"));
  return kDone;
}

}  // namespace

void AddExperimentComposeVerb(CommandLine& command_line) {
  const auto options = std::make_shared<ComposeVerbOptions>();
  const Verb verb = command_line.AddVerb(
      "experiment compose",
      "Write an experiment as a file for docker compose\n"
      "One setting with one seed: the compose file, and beside it a folder with its configs. The "
      "image is made by `docker compose build` in the source tree.",
      "atoll experiment compose configs/experiments/links.toml --out build/compose/links.yml",
      [options] { return PrintCompose(*options); });
  verb.Add("FILE", options->file, "The experiment").Required().File();
  verb.Add("--setting", options->setting, "Which of its settings [the first]");
  verb.Add("--seed", options->seed, "Which seed [the first]");
  verb.Add("--out", options->out, "The file to write, which must be new").File();
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
