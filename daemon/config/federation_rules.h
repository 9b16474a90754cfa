// The rules between the keys that make a run a federation of parties with data of their own: [data]
// private and validation, [inner] epochs, [federation]. On the disk it only checks whether files
// exist. May be called from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_sections.h"

namespace atolld {

struct FederationFault {
  // The keys to change, each with its section.
  std::vector<std::pair<std::string, std::string>> keys;
  std::string what;  // empty if nothing is wrong
};

// Relative paths of the config start at `folder`. If `use` is kPeer, rules about the run's keys are
// not checked, because a peer's config does not hold these keys.
FederationFault FaultOfFederation(const Config& config, ConfigUse use, const std::string& folder);

}  // namespace atolld
