// What the table of keys says of the run's record: writes the values that RunSpec holds as they
// are, and finds keys that are set although other keys leave them without a meaning.
//
// Pure. May be called from any thread.
#pragma once

#include "atoll/v1/run.pb.h"
#include "daemon/config/config_rules.h"
#include "daemon/config/config_sections.h"

namespace atolld {

// Sets each field of the spec that the table of keys names (ConfigRecord in config_field.h). Leaves
// a field unset if the value is 0, false or empty.
void WriteRecord(const RunConfig& config, v1::RunSpec* spec);

// Returns the first key, in the table's order, that does not have its default although the
// condition under which it has a meaning does not hold. The message names the values that the other
// key would need.
ConfigFault FaultOfMisplacedKey(const Config& config);

}  // namespace atolld
