// `atoll experiment compose`: an experiment as a file for docker compose.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/cli/output.h"
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

VerbExit Compose(const ComposeVerbOptions& options) {
  // Compose tells YAML by the name.
  if (!absl::EndsWith(options.out, ".yml") && !absl::EndsWith(options.out, ".yaml")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out '", options.out, "': a name that ends in .yml or .yaml"));
  }
  ASSIGN_OR_RETURN(const Experiment experiment, ReadExperiment(options.file));
  ASSIGN_OR_RETURN(const size_t setting, SettingNamed(experiment, options.setting));
  const std::string& name = experiment.settings[setting].name;
  const uint64_t seed = options.seed != 0 ? options.seed : experiment.seeds.at(0);
  ASSIGN_OR_RETURN(const ComposeFiles files,
                   MakeCompose(experiment, setting, seed, ComposeFolder(options.out)));
  ASSIGN_OR_RETURN(const std::vector<std::string> written, WriteCompose(files, options.out));
  std::vector<std::string> lines = {
      absl::StrCat(name, ", seed ", seed, ": a coordinator and ", Counted(files.peers, "peer"))};
  lines.insert(lines.end(), written.begin(), written.end());
  lines.push_back(absl::StrCat("start it: docker compose -f ", options.out, " up"));
  return PrintAnswer(
      options.json, {{"setting", name}, {"seed", seed}, {"peers", files.peers}, {"files", written}},
      lines);
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
      [options] { return Compose(*options); });
  verb.Add("FILE", options->file, "The experiment").Required().File();
  verb.Add("--setting", options->setting, "Which of its settings [the first]");
  verb.Add("--seed", options->seed, "Which seed [the first]");
  verb.Add("--out", options->out, "The file to write, which must be new").File();
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
