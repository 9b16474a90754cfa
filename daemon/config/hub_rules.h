// What a config must say for a model of kind "huggingface": its folder, and what else it has there.
//
// Pure but for a look at the folder; any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"
#include "daemon/config/party_rules.h"

namespace atolld {

inline constexpr char kHubConfig[] = "config.json";  // in a model's folder of Hugging Face's

// The first rule that the config breaks, if its model is of that kind; relative paths begin at
// `folder`. `trains`: a worker is started here, which needs the folder.
PartyFault HubFault(const Config& config, bool trains, const std::string& folder);

}  // namespace atolld
