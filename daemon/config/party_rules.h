// The rules for the keys about the virtual parties that a peer hosts, the control variates that
// parties keep, and the slower machine that a party's worker simulates. Pure. May be called from
// any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_sections.h"
#include "daemon/config/config_table.h"

namespace atolld {

struct PartyFault {
  // The keys concerned, each with its section; the first is the key to change.
  std::vector<std::pair<std::string, std::string>> keys;
  std::string what;  // empty if nothing is wrong
};

// Checks [parties]: virtual parties need data of their own and a worker that supports them.
PartyFault HostedFault(const Config& config, ConfigUse use);

// Checks [inner] control_variates (SCAFFOLD). Each peer derives the common variate from an entry,
// so the entry must be the mean of the parties' work at one known learning rate.
PartyFault ControlFault(const Config& config);

// Checks [worker] slower, which only works with Atoll's own workers.
PartyFault SlowerFault(const Config& config);

}  // namespace atolld
