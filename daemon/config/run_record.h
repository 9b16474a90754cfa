// The run's record: the description of a run (RunSpec) that a config makes, and the keys that have
// no meaning in it.
//
// Pure. May be called from any thread.
#pragma once

#include "atoll/v1/run.pb.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// Returns the run's record. The run id must be set. Most fields hold the value of one key, as the
// table of keys says (ConfigRecord in config_field.h); the others follow from several keys.
// decay_steps 0 becomes rounds x steps, or one step past the warm-up if that is later.
v1::RunSpec MakeRunSpec(const RunConfig& config);

// Returns how many of run.peers peers are drawn for a round (membership/run/participation.h).
uint32_t DrawnPeers(const RunConfig& config);

// Returns the first key, in the table's order, that does not have its default although the
// condition under which it has a meaning does not hold. The message names the values that the other
// key would need.
ConfigFault FaultOfMisplacedKey(const Config& config);

}  // namespace atolld
