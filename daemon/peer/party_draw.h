// Which of a peer's virtual parties take part in something: drawn by the run's seed alone, so that
// the same run draws the same parties wherever it is repeated.
//
//   key(party) = the first 8 bytes, as u64 LE, of SHA-256(domain, seed, version, party)
//
// (as DigestBuilder writes fields); of those that are there, the ones with the lowest keys. Parties
// bear the run's numbers, so peers that share a folder of them draw apart. Pure; memory for those
// that are drawn alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

struct PartyDraw {
  absl::string_view domain;  // what is drawn for: other draws of one version are independent
  uint64_t seed = 0;
  uint64_t version = 0;
  uint32_t first = 1;   // number of the first party
  uint32_t hosted = 0;  // so many from there on
  uint32_t count = 0;   // to be drawn; 0, or as many as there are: all
};

inline constexpr absl::string_view kTrainDraw = "atoll.parties.1";
inline constexpr absl::string_view kEvaluateDraw = "atoll.parties.evaluate.1";

// Ascending. Fewer than `count` where fewer are there; `is_there` null: all are.
std::vector<uint32_t> DrawParties(const PartyDraw& draw,
                                  const std::function<bool(uint32_t party)>& is_there);

}  // namespace atolld
