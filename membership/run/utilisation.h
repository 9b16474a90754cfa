// How well a run's workers are used, by what its peers say of themselves. Pure; any thread.
#pragma once

#include <optional>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// Nothing where the peer has not told it (an update of a run's or a peer's first round has no time
// before it), or where what it told makes no sense.
std::optional<v1::Utilisation> UtilisationOf(const v1::Ready& ready);

// To sums over several peers.
void AddUtilisation(const v1::Utilisation& more, v1::Utilisation* sum);

// The share of the time in which workers trained, 0-1. Nothing where it is not known.
std::optional<double> TrainedShare(const v1::Utilisation& utilisation);

// The share of the bytes that passed while workers trained, 0-1. Nothing where none passed.
std::optional<double> HiddenShare(const v1::Utilisation& utilisation);

}  // namespace atolld
