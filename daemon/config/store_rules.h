// The keys of [coordinator] about its store and the run's other coordinators, and the rules between
// these keys. Pure. May be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "daemon/config/config_field.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// Returns these keys as entries of the table of all keys. They point into `config`, which must
// outlive them.
std::vector<ConfigField> StoreFields(Config& config);

// Checks these rules. For example, a config whose store is shared must give the run's id, and
// connections to etcd on another machine must be encrypted.
ConfigFault FaultOfStore(const Config& config, ConfigUse use);

// Returns the addresses of the run's coordinators, [coordinator] address first. One of these
// coordinators leads.
std::vector<std::string> CoordinatorAddresses(const Config& config);

}  // namespace atolld
