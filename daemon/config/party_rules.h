// What must hold between the keys of the parties that a peer hosts, of the control variates that
// parties keep, and of the machine that a party's worker plays. Pure, any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_sections.h"
#include "daemon/config/config_table.h"

namespace atolld {

struct PartyFault {
  std::vector<std::pair<std::string, std::string>> keys;  // section and key; the first to change
  std::string what;                                       // empty: nothing is wrong
};

// [parties]: virtual parties have data of their own and a worker that knows them.
PartyFault HostedFault(const Config& config, ConfigUse use);

// [inner] control_variates (SCAFFOLD): the common variate is made of what an entry carries, so the
// entry must be the mean of what parties did at one known rate.
PartyFault ControlFault(const Config& config);

// [worker] slower is a word of Atoll's own workers.
PartyFault SlowerFault(const Config& config);

}  // namespace atolld
