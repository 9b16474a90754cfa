// What the coordinator does with a stored run before it goes on with it. Pure functions.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/config.h"
#include "membership/record.h"
#include "membership/run.h"

namespace atolld {

// The spec to run: the stored one if the config agrees with it, a new one for an empty store (the
// run's id from the config, or from the time if it names none). FAILED_PRECONDITION names what
// differs.
absl::StatusOr<v1::RunSpec> SpecToRun(const Config& config, const StoredRun& stored,
                                      absl::Time wall_time);

// DATA_LOSS unless the headers are one valid chain from the genesis and the seal closes it.
absl::Status CheckStoredRun(const StoredRun& stored);

// How the run decides. INVALID_ARGUMENT: the outer rule or the codec is unknown, or its numbers
// make no sense.
absl::StatusOr<RunSettings> MakeRunSettings(const Config& config, const v1::RunSpec& spec);

}  // namespace atolld
