// The keys of some sections, as entries of the table of all keys (config_table.h).
//
// The entries point into the argument, which must outlive them.
#pragma once

#include <vector>

#include "compression/base/decoder.h"
#include "daemon/config/config_field.h"

namespace atolld {

std::vector<ConfigField> DataFields(Config& config);
std::vector<ConfigField> ModeFields(Config& config);
std::vector<ConfigField> ExpertsFields(Config& config);
std::vector<ConfigField> FederationFields(Config& config);
std::vector<ConfigField> PrivacyFields(Config& config);
std::vector<ConfigField> PartiesFields(Config& config);
std::vector<ConfigField> AvailabilityFields(Config& config);

// Returns the keys of [model] that say how a decoder differs from Llama.
std::vector<ConfigField> DecoderFields(DecoderShape& shape);

}  // namespace atolld
