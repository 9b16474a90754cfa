// Makes the files with which an experiment runs in containers: the file for docker compose, and the
// configs beside it.
//
// One setting with one seed has a service for the coordinator, a service with all peers and, if the
// experiment has faults, a service that causes them. The image's entrypoint (configs/docker) does
// the rest: it partitions the data and gives every peer a number, its party, its line and a token.
// A setting that containers do not support is refused with the reason. Files of this machine that
// the run needs are mounted read-only. MakeCompose is pure, except that it checks whether those
// files exist. WriteCompose blocks. May be called from any thread.
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
  std::map<std::string, std::string> configs;  // the configs by their names in the mounted folder
  uint32_t peers = 0;
};

// Says who starts the containers. With kByHand it is a user: the coordinator's container ends with
// the run, and the dashboard has a fixed port. With kDriven it is `atoll experiment run`, which
// removes the containers itself and may run several projects at once.
enum class ComposeUse { kByHand, kDriven };

// Makes the files for one setting with one seed. `folder` is the folder of the configs, written as
// in the compose file: "./docker-compose". Fails with INVALID_ARGUMENT if this setting cannot run
// in containers or if a file is missing.
absl::StatusOr<ComposeFiles> MakeCompose(const Experiment& experiment, size_t setting,
                                         uint64_t seed, const std::string& folder,
                                         ComposeUse use = ComposeUse::kByHand);

// Writes the compose file to `out`, and the configs to the folder beside it that has the same name
// without the extension. Returns the paths of all files. Fails with ALREADY_EXISTS if a file exists
// with different contents.
absl::StatusOr<std::vector<std::string>> WriteCompose(const ComposeFiles& files,
                                                      const std::string& out);

// Returns the folder to which WriteCompose writes the configs, relative to the folder of `out`:
// "./docker-compose".
std::string ComposeFolder(const std::string& out);

// Returns the line of a party ("party-3"): the entry with its name, otherwise the last entry whose
// pattern matches, otherwise the entry "default". Returns null if there is no such entry.
const LinkKeys* LinkOf(const std::vector<LinkKeys>& links, const std::string& party);

}  // namespace atolld
