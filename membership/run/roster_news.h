// RosterNews: what members are told of each other.
//
// On its Session a peer is told the roster whole once, and then what changes, in deltas that are
// numbered (v1::RosterDelta). One delta is the same for all. Law: what has not changed is not sent;
// whoever has been told the whole under some number and all deltas after it knows what Whole() says
// under the newest number.
//
// A change is told at once where the last one was told long enough ago, else with all others of the
// meantime: so that telling n peers of each other's coming costs n messages a delta and not n a
// change. An eviction and a plan do not wait (Hurry): peers cut an evicted one's calls when they
// hear of it, and do not believe a plan that names strangers. Pure; one thread.
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

// What a peer makes of a delta: `roster`, which it has been told, is brought to the delta's number.
// INVALID_ARGUMENT: it does not follow `roster`, or no honest coordinator says it; nothing has
// changed then.
absl::Status Follow(const v1::RosterDelta& delta, v1::Roster* roster);

class RosterNews {
 public:
  explicit RosterNews(absl::Duration failure_timeout) : failure_timeout_(failure_timeout) {}

  // The roster may say something else than it did.
  void NoteChange() { changed_ = true; }
  // What has changed is told by the next Take, however short a time has passed.
  void Hurry() { changed_ = hurry_ = true; }
  // These keys, all of them, are refused by now: the next Take does not wait.
  void SetRevoked(std::vector<v1::RevokedKey> keys);
  // The next Take tells something even if nothing has changed: who is waited for is known by now.
  void Insist() { changed_ = hurry_ = insist_ = true; }

  bool Due(absl::Time now) const { return changed_ && (hurry_ || now >= next_); }
  // When Due() will be true; InfiniteFuture: nothing has changed.
  absl::Time NextDue() const { return changed_ ? next_ : absl::InfiniteFuture(); }

  // It is Due(). Null: nothing has changed after all. `awaited`: as v1::Roster's. `sealed`: the run
  // is, and by now it counts what version somebody holds.
  RunOutput::Message Take(absl::Time now, const Roster& roster, bool sealed,
                          absl::Span<const std::string> awaited);

  // For a Session that begins: what all others have been told up to now.
  const RunOutput::Message& Whole();

 private:
  void Compare(const Roster& roster, bool sealed, v1::RosterDelta* delta);

  const absl::Duration failure_timeout_;
  bool changed_ = false;  // perhaps, since the last Take
  bool hurry_ = false;
  bool insist_ = false;
  bool keys_changed_ = false;
  std::vector<v1::RevokedKey> revoked_;
  absl::Time next_ = absl::InfinitePast();
  // As it has been told.
  uint64_t number_ = 0;
  std::map<std::string, v1::Member> told_;
  std::set<std::string> awaited_;
  std::vector<v1::RevokedKey> told_revoked_;
  RunOutput::Message whole_;  // null: to be made
};

}  // namespace atolld
