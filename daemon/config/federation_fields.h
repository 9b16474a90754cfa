// The keys of [federation], [privacy], [parties] and [availability], as entries of the table of all
// keys.
#pragma once

#include <vector>

#include "daemon/config/config_field.h"

namespace atolld {

// Each returns the entries of one section. They point into `config`, which must outlive them.
std::vector<ConfigField> FederationFields(Config& config);
std::vector<ConfigField> PrivacyFields(Config& config);
std::vector<ConfigField> PartiesFields(Config& config);
std::vector<ConfigField> AvailabilityFields(Config& config);

}  // namespace atolld
