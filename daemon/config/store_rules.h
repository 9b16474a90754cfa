// The keys of [coordinator] that are about its store and the run's other coordinators: what they
// are, and what must hold between them. Pure, any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config_field.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// They point into `config`.
std::vector<ConfigField> StoreFields(Config& config);

struct StoreFault {
  std::vector<std::pair<std::string, std::string>> keys;  // section and key: those to change
  std::string what;                                       // empty: nothing is wrong
};

// Coordinators that share a store must agree on the run's name. What is between them and etcd is
// encrypted, unless it stays on this machine.
StoreFault FaultOfStore(const Config& config, ConfigUse use);

// Where a coordinator may be found, [coordinator] address first: one of them leads.
std::vector<std::string> CoordinatorAddresses(const Config& config);

}  // namespace atolld
