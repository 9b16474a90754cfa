// An experiment as containers: the file that docker compose takes, and the configs beside it.
//
// One setting with one seed is a coordinator, one parameterised service of peers, and, where the
// experiment has faults, one that brings them about. The image's entrypoint (configs/docker) does
// the rest: it deals out the data, gives every peer a number, its party, its line and a token. What
// containers cannot do is refused with the reason. Files on this machine that the run needs are
// mounted read-only. MakeCompose is pure but for looking whether those files are there; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/experiment/experiment.h"

namespace atolld {

struct ComposeFiles {
  std::string compose;                         // docker-compose.yml
  std::map<std::string, std::string> configs;  // by name, in the folder that it mounts
  uint32_t peers = 0;
};

// Who starts the containers: whoever types it, where the coordinator's ends with the run and the
// dashboard has a port that is known; or `atoll experiment run`, which takes them down, and may run
// several at once.
enum class ComposeUse { kByHand, kDriven };

// `folder`: the configs' own, as the compose file names it: "./docker-compose". INVALID_ARGUMENT:
// this setting cannot run in containers, or lacks a file.
absl::StatusOr<ComposeFiles> MakeCompose(const Experiment& experiment, size_t setting,
                                         uint64_t seed, const std::string& folder,
                                         ComposeUse use = ComposeUse::kByHand);

// Writes them: `out`, and the configs in the folder beside it that has its name without the
// extension. Returns the paths. ALREADY_EXISTS: a file is there and says something else.
absl::StatusOr<std::vector<std::string>> WriteCompose(const ComposeFiles& files,
                                                      const std::string& out);

// The folder of the configs of `out`, from its own: "./docker-compose".
std::string ComposeFolder(const std::string& out);

// The line of a party ("party-3"): that of its name, else of the last pattern that fits, else of
// "default"; null: there is none.
const LinkKeys* LinkOf(const std::vector<LinkKeys>& links, const std::string& party);

}  // namespace atolld
