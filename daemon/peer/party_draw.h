// PartyDraw: chooses which of a peer's virtual parties take part in something. The draw depends
// only on a seed. With the run's seed, a repeated run draws the same parties.
//
//   key(party) = the first 8 bytes, as u64 LE, of SHA-256(domain, seed, version, party)
//
// (fields are written as by DigestBuilder). The available parties with the lowest keys are drawn.
// Parties have numbers that are unique in the run, so peers that share a folder of parties draw
// independently. The functions are pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

struct PartyDraw {
  // The purpose of the draw. Draws of one version for different purposes are independent.
  absl::string_view domain;
  uint64_t seed = 0;
  uint64_t version = 0;
  uint32_t first = 1;   // The number of the first party.
  uint32_t hosted = 0;  // The number of hosted parties, from `first` on.
  uint32_t count = 0;   // The number of parties to draw; 0 means all.
  // The largest share of the available parties that may be drawn; their number is rounded down.
  double share = 1;
};

inline constexpr absl::string_view kTrainDraw = "atoll.parties.1";
inline constexpr absl::string_view kEvaluateDraw = "atoll.parties.evaluate.1";

// Returns the largest number of parties that `share` allows to draw from `parties` parties.
uint32_t MostDrawn(uint32_t parties, double share);

// Returns the drawn parties in ascending order. There are fewer than `count` parties, or even no
// party, if fewer are available or `share` allows fewer. If `is_there` is null, all parties are
// available.
std::vector<uint32_t> DrawParties(const PartyDraw& draw,
                                  const std::function<bool(uint32_t party)>& is_there);

}  // namespace atolld
