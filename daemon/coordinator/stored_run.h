// What the coordinator does with a stored run before it goes on with it. Pure functions.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/config/config.h"
#include "daemon/identity/cluster.h"
#include "membership/history/signing_key.h"
#include "membership/run/record.h"
#include "membership/run/run.h"

namespace atolld {

// The key of the stored run's history, or of a run that is to begin; nothing where it is unsigned.
// FAILED_PRECONDITION: the key that is there is not the run's. Errors as the source's.
absl::StatusOr<std::optional<SigningKey>> KeyOfHistory(const StoredRun& stored,
                                                       const HistoryKeySource& source);

// The spec to run: the stored one if the config agrees with it, a new one for an empty store (the
// run's id from the config, or from the time if it names none), whose history `key` signs (none:
// nobody). FAILED_PRECONDITION names what differs.
absl::StatusOr<v1::RunSpec> SpecToRun(const Config& config, const StoredRun& stored,
                                      absl::Time wall_time,
                                      const std::optional<SigningKey>& key = std::nullopt);

// DATA_LOSS unless the headers are one valid chain from the genesis and the seal closes it.
absl::Status CheckStoredRun(const StoredRun& stored);

// How the run decides. `key`: that of a spec that names one. INVALID_ARGUMENT: the outer rule or
// the codec is unknown, or its numbers make no sense.
absl::StatusOr<RunSettings> MakeRunSettings(const Config& config, const v1::RunSpec& spec,
                                            const std::optional<SigningKey>& key = std::nullopt);

}  // namespace atolld
