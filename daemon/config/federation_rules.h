// What must hold between the keys that make a run one of parties with data of their own: [data]
// private and validation, [inner] epochs, [federation]. Reads no more than whether files exist; any
// thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_sections.h"

namespace atolld {

struct FederationFault {
  std::vector<std::pair<std::string, std::string>> keys;  // section and key: those to change
  std::string what;                                       // empty: nothing is wrong
};

// `folder`: where the config's relative paths start. Of a peer's own config the run's keys are not
// known, and nothing is asked of them.
FederationFault FaultOfFederation(const Config& config, ConfigUse use, const std::string& folder);

}  // namespace atolld
