// Defaults that follow from other keys: what a key is where the file does not say. The table of
// keys (config_table.h) says the rule of each. Pure, any thread.
#pragma once

#include <string>

#include "daemon/config/config_places.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// `places`: which keys the file or an option gave. Those stay as they are.
void UseDefaultsThatFollow(const ConfigPlaces& places, Config* config);

// The row of the table of outer rates that is nearest to the run (optimizer/outer_rates.h),
// whatever the file says: "0.7 / 0.9 (3 peers, 25 steps, adamw; ...)". Empty with another rule than
// nesterov.
std::string OuterRatesOf(const Config& config);

}  // namespace atolld
