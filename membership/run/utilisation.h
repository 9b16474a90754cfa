// Computes how well a run's workers are used, from the figures that its peers report. Pure. May be
// called from any thread.
#pragma once

#include <optional>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// Returns nullopt if the peer has not reported its utilisation, or if its figures are invalid. A
// peer reports none with its first update, because there is no time before it to measure.
std::optional<v1::Utilisation> UtilisationOf(const v1::Ready& ready);

// Adds the figures of `more` to the sums over several peers.
void AddUtilisation(const v1::Utilisation& more, v1::Utilisation* sum);

// Returns the share of the time in which workers trained, 0-1, or nullopt if unknown.
std::optional<double> TrainedShare(const v1::Utilisation& utilisation);

// Returns the share of the bytes that were sent while workers trained, 0-1, or nullopt if no bytes
// were sent.
std::optional<double> HiddenShare(const v1::Utilisation& utilisation);

}  // namespace atolld
