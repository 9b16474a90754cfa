// Defaults that follow from other keys: what a key is where the file does not say. The table of
// keys (config_table.h) says the rule of each. Pure, any thread.
#pragma once

#include "daemon/config/config_places.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// `places`: which keys the file or an option gave. Those stay as they are.
void UseDefaultsThatFollow(const ConfigPlaces& places, Config* config);

}  // namespace atolld
