// Makes the header of an entry from the exchange that its voters have agreed on. Pure. May be
// called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// The largest factor by which an update may be scaled up. A run that brings all updates to the same
// number of inner steps scales some of them up, so the numbers of steps may differ by at most this
// factor.
inline constexpr float kLargestUpdateScale = 65536;

struct HeaderTerms {
  const v1::RunSpec& spec;
  absl::Span<const v1::Scalar> scalars;  // the outer rule's scalars, ascending by name
  std::string previous_header_digest;
  // Returns the samples on which a contributor's update was trained, which this entry spends.
  std::function<std::vector<v1::SampleRange>(const std::string& peer)> samples;
  // The nonce to which the plan has committed; empty if there is no audit.
  std::string audit_nonce = "";
  // Returns the number of parties whose weighted mean an update is, or 0 if it is the update of a
  // single party. If null, every update is that of a single party.
  std::function<uint32_t(const std::string& peer)> parties = nullptr;
  // The number of all parties of the run; used only if the run has control variates.
  uint64_t run_parties = 0;
  // Returns the number of entries that an update has missed. If null, no update has missed an
  // entry. Used only in modes that count ages.
  std::function<uint32_t(const std::string& peer)> age = nullptr;
  // The squared length of the payload's mean according to the votes; 0 if no vote reports it.
  double squared_mean = 0;
  const v1::EntryHeader* previous = nullptr;  // the previous header; null if there is none
  // Returns the version of the state against which an update was formed. If null, each update was
  // formed against the state before the entry.
  std::function<uint64_t(const std::string& peer)> base = nullptr;
  // Returns true if a peer's update was in the run's slow_codec. If null, no update was.
  std::function<bool(const std::string& peer)> slow_codec = nullptr;
};

// Returns true if the plan's updates are measured from the mean of the entry before. Returns false
// if the rule has no centre, or if a peer does not hold that mean; the centre is then zero.
bool FromCentre(const v1::Plan& plan);

// Returns the header of entry plan.version(), unsigned. A contributor whose chunks all came too
// late is in no bitmap of the vote. The header does not name it and its bitmaps have no bit for it,
// so every contributor that the header names is included in at least one chunk.
v1::EntryHeader MakeHeader(const HeaderTerms& terms, const v1::Plan& plan,
                           const v1::Vote& agreement);

// Returns, in the plan's order, whether each contributor of the plan is in any of the vote's
// bitmaps.
std::vector<bool> Included(const v1::Plan& plan, const v1::Vote& agreement);

}  // namespace atolld
