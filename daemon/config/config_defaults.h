// The defaults that depend on other keys. They apply to keys that the file does not give; the table
// of keys (config_table.h) states the rule for each. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/config/config_places.h"
#include "daemon/config/config_sections.h"
#include "optimizer/outer_advice.h"

namespace atolld {

// Sets these defaults. `places` holds the keys that the file or an option gave, whose values are
// not changed.
void UseDefaultsThatFollow(const ConfigPlaces& places, Config* config);

// Returns the row of the table of outer rates (optimizer/outer_rates.h) that is nearest to the run,
// such as "0.7 / 0.9 (3 peers, 25 steps, adamw; ...)", even if the file gives other rates. Returns
// an empty text for a rule other than nesterov.
std::string OuterRatesOf(const Config& config);

// Returns the settings on which advice is given (optimizer/outer_advice.h). With [inner] epochs the
// number of steps is unknown. A stub, which has no loss, gets no advice.
OuterSetting OuterSettingOf(const Config& config);

// Returns the config for another number of peers. If its outer learning rate or momentum is the
// default, it becomes the default for that number.
Config WithPeers(const Config& config, uint32_t peers);

}  // namespace atolld
