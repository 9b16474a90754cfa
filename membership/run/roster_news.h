// RosterNews: makes the messages that inform members about each other.
//
// On each Session a peer is sent the whole roster once, and then the changes in numbered deltas
// (v1::RosterDelta). A delta is the same for all peers. Law: what has not changed is not sent. A
// peer that was sent the whole roster with some number and all deltas after it has the same roster
// as Whole() with the newest number.
//
// A change is sent at once if the last one was sent long enough ago, and otherwise together with
// all other changes in the meantime. When many peers join, each of the n members is then sent one
// message a delta, not one a change. Changes are sent at once before a plan and after an eviction
// (Hurry), because peers do not believe a plan that names unknown peers, and end an evicted peer's
// calls when they learn of the eviction. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/roster.h"
#include "membership/run/run_output.h"

namespace atolld {

// Applies a delta to the roster that a peer has received, and sets it to the delta's number. Fails
// with INVALID_ARGUMENT, and changes nothing, if the delta's number does not follow that of
// `roster`, or if no honest coordinator would send the delta.
absl::Status Follow(const v1::RosterDelta& delta, v1::Roster* roster);

class RosterNews {
 public:
  explicit RosterNews(absl::Duration failure_timeout) : failure_timeout_(failure_timeout) {}

  // Called when the roster may have changed.
  void NoteChange() { changed_ = true; }
  // Makes the next Take due at once.
  void Hurry() { changed_ = hurry_ = true; }
  // Sets all keys that are refused now, and makes the next Take due at once.
  void SetRevoked(std::vector<v1::RevokedKey> keys);
  // Makes the next Take due at once and return a message even if nothing has changed. Called when
  // the run is sealed, so that peers learn which peers are waited for.
  void Insist() { changed_ = hurry_ = insist_ = true; }

  bool Due(absl::Time now) const { return changed_ && (hurry_ || now >= next_); }
  // Returns when Due() will be true, or InfiniteFuture if nothing has changed.
  absl::Time NextDue() const { return changed_ ? next_ : absl::InfiniteFuture(); }

  // Returns the next delta, or null if nothing has changed after all. Requires Due(). `awaited` are
  // the peers for which the run waits after the seal (v1::Roster.awaited). `sealed` is true if the
  // run is sealed; a new version that a peer holds then counts as a change.
  RunOutput::Message Take(absl::Time now, const Roster& roster, bool sealed,
                          absl::Span<const std::string> awaited);

  // Returns the roster that all other peers have been sent up to now, for a Session that begins.
  const RunOutput::Message& Whole();

 private:
  void Compare(const Roster& roster, bool sealed, v1::RosterDelta* delta);

  const absl::Duration failure_timeout_;
  bool changed_ = false;  // true if the roster may have changed since the last Take
  bool hurry_ = false;
  bool insist_ = false;
  bool keys_changed_ = false;
  std::vector<v1::RevokedKey> revoked_;
  absl::Time next_ = absl::InfinitePast();
  // What peers have been sent, up to the delta with this number.
  uint64_t number_ = 0;
  std::map<std::string, v1::Member> told_;
  std::set<std::string> awaited_;
  std::vector<v1::RevokedKey> told_revoked_;
  RunOutput::Message whole_;  // Whole(); null if it must be made anew
};

}  // namespace atolld
