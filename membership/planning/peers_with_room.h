// Whose lines had room in an exchange, by what the votes tell of waits.
//
// A reducer counts for whom its chunks waited (ArrivalLog). Whose piece hardly any chunk waited for
// while they did for others' had room: what was seen of its line is what was asked of it, and it
// may carry more. At a peer on a slow line everybody's chunks are late, whoever sends them, so the
// word of those that are waited for themselves does not count. Blame falls by chance too, and votes
// are others' words: who goes by it tries, and looks. Pure.
#pragma once

#include <set>
#include <string>

#include "absl/types/span.h"
#include "membership/planning/link_estimates.h"

namespace atolld {

// Nobody where most chunks waited for nobody, or no vote tells of it.
std::set<std::string> PeersWithRoom(absl::Span<const ExchangeWitness> witnesses);

}  // namespace atolld
