// The rules for a config with a model of kind "huggingface": its folder, and the keys that it
// allows.
//
// The check reads the folder and nothing else. May be called from any thread.
#pragma once

#include <string>

#include "daemon/config/config_sections.h"
#include "daemon/config/party_rules.h"

namespace atolld {

// The name of the file with a model's settings in its folder.
inline constexpr char kHubConfig[] = "config.json";

// Returns the first rule that the config breaks; nothing is wrong with a model of another kind.
// Relative paths start at `folder`. `trains` is true if this machine starts a worker, which needs
// the model's folder.
PartyFault HubFault(const Config& config, bool trains, const std::string& folder);

}  // namespace atolld
