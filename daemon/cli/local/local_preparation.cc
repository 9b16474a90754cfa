#include "daemon/cli/local/local_preparation.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/process.h"
#include "daemon/cli/worker_tool.h"

namespace atolld {

std::optional<LocalFailure> PrepareLocalRun(const LocalOptions& options,
                                            LocalPreparation* prepared) {
  std::error_code error;
  std::vector<ConfigOverride> overrides;
  if (options.peers) overrides.push_back({"--peers", "run", "peers", *options.peers});
  if (options.rounds) overrides.push_back({"--rounds", "run", "rounds", *options.rounds});
  if (!options.data.empty()) {
    overrides.push_back(
        {"--data", "data", "path", std::filesystem::absolute(options.data, error).string()});
  }
  absl::StatusOr<Config> config = LoadConfig(options.config_path, ConfigUse::kLocal, overrides);
  if (!config.ok()) return LocalFailure{2, config.status()};
  prepared->config = *std::move(config);
  const absl::Time now = absl::Now();
  if (prepared->config.run.id.empty()) {
    prepared->config.run.id = MakeRunId(options.config_path, now);
  }
  const std::filesystem::path json_folder =
      std::filesystem::absolute(options.json, error).parent_path();
  const std::string dir =
      options.dir.empty() ? absl::FormatTime("atoll-run-%Y%m%d-%H%M%S", now, absl::LocalTimeZone())
                          : options.dir;
  std::filesystem::path path = std::filesystem::absolute(dir, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  prepared->dir = path.string();
  if (!options.json.empty() && options.json != "-" && json_folder.lexically_normal() != path &&
      access(json_folder.c_str(), W_OK) != 0) {
    return LocalFailure{
        2, absl::InvalidArgumentError(absl::StrCat(
               "--json ", options.json, ": the folder is not there or cannot be written"))};
  }
  prepared->atolld = absl::StrCat(ProgramFolder(), "/atolld");
  if (access(prepared->atolld.c_str(), X_OK) != 0) {
    return LocalFailure{1, absl::NotFoundError(absl::StrCat(
                               prepared->atolld, " is missing; the target atolld builds it"))};
  }
  const absl::StatusOr<std::string> worker =
      FindWorker(prepared->config.worker.program, prepared->config.model.kind);
  if (!worker.ok()) return LocalFailure{1, worker.status()};
  prepared->worker = *worker;
  const absl::Status counted =
      CountVocabulary(ProgramFolder() + "/atoll-worker", &prepared->config);
  if (!counted.ok()) return LocalFailure{2, counted};
  const absl::StatusOr<int> port = FreeLoopbackPort(options.port);
  if (!port.ok()) return LocalFailure{1, port.status()};
  prepared->port = *port;
  return std::nullopt;
}

}  // namespace atolld
