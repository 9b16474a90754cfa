// From an agreed exchange to the header of its entry. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// By how much an update may be scaled: up, where a run brings all to the same number of inner
// steps, as far as these may differ.
inline constexpr float kLargestUpdateScale = 65536;

struct HeaderTerms {
  const v1::RunSpec& spec;
  absl::Span<const v1::Scalar> scalars;  // of the outer rule, ascending by name
  std::string previous_header_digest;
  // What each contributor's update was trained on: what this entry spends.
  std::function<std::vector<v1::SampleRange>(const std::string& peer)> samples;
  std::string audit_nonce = "";  // of the plan's commitment; empty: no audit
  // Whose weighted mean an update is; 0: one party's own. null: each is
  std::function<uint32_t(const std::string& peer)> parties = nullptr;
  uint64_t run_parties = 0;  // all that the run has; read where it has control variates
  // Entries that each one's update has missed; null: none has. Read where ages count.
  std::function<uint32_t(const std::string& peer)> age = nullptr;
  double squared_mean = 0;                    // of the payload, as votes tell it; 0: nobody does
  const v1::EntryHeader* previous = nullptr;  // null: there is none
  // The state that an update was formed against; null: each against the one before the entry
  std::function<uint64_t(const std::string& peer)> base = nullptr;
  // Whether its update was in the run's slow_codec; null: none was
  std::function<bool(const std::string& peer)> slow_codec = nullptr;
};

// Whether the plan's updates are measured from the mean of the entry before; they are not where the
// rule has no centre, or somebody does not hold it: it is zeros then.
bool FromCentre(const v1::Plan& plan);

// The header of entry plan.version(), unsigned. Contributors whose chunks all came too late (their
// bit is in no bitmap) are not named, and the bitmaps count without them: who is named is included
// in at least one chunk.
v1::EntryHeader MakeHeader(const HeaderTerms& terms, const v1::Plan& plan,
                           const v1::Vote& agreement);

// The contributors of the plan that the vote's bitmaps include somewhere, in the plan's order.
std::vector<bool> Included(const v1::Plan& plan, const v1::Vote& agreement);

}  // namespace atolld
