// ReachWatch: finds out which other members this peer cannot reach, before an exchange needs them.
//
// A broken line reports an error; a line that drops packets does not. So this peer sends echoes of
// a few packets (wake.h) to some of the members that it may have to dial. An echo has more than one
// packet, since a line may pass only small packets. The peer sends an echo to a member when the
// roster first names the member at its address, rarely after that, and often while the member does
// not answer. The results of wake-up calls and exchanges count as well. A member that does not
// answer is in doubt. The coordinator is told each change at once, each doubt again at each
// failed dial and at each new Session, and the end of a doubt again at each new Session for a
// while. Used on the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/wake.h"

namespace atolld {

// Returns how long an echo of a few packets may take: half of failure_timeout, at least 1 s and at
// most 5 s.
absl::Duration EchoPatience(absl::Duration failure_timeout);

// Returns true if the status shows that the other peer answered, even with a refusal.
bool IsAnswer(const absl::Status& status);

class ReachWatch {
 public:
  using Send = std::function<void(const v1::PeerMessage&)>;

  // The number of members, after this peer in the roster, that are dialled only to see whether they
  // answer.
  static constexpr size_t kWatched = 8;

  ReachWatch(Env env, std::string self, Send send);

  // `values` is the length of the run's vector, or 0 if it is not known yet. An echo has at most
  // one byte for each 64 values, since a run over slow lines has small vectors.
  void Follow(absl::Duration failure_timeout, uint64_t values);
  // Takes a new roster. A member that is gone is not dialled, and is not in doubt meanwhile. If it
  // comes back at the same address while the coordinator may still count the doubt, it is in doubt
  // again until it answers.
  void SetRoster(const v1::Roster& roster);
  // Called when a wake-up call to the address has ended with this status. An answer does not end a
  // doubt, since such a call has only few bytes.
  void OnWoken(const std::string& address, const absl::Status& status);
  // Called when an exchange's dial to the member got no answer or its stream has become silent.
  void OnSilent(const std::string& peer, const absl::Status& why);
  // Called when an exchange over these addresses has failed and no stream has reported a reason,
  // because it takes long to notice that a line has begun to drop packets. Sends an echo to each
  // address immediately.
  void Ask(const std::set<std::string>& addresses);
  // Called at a new Session. Reports all doubts again, and that members answer whose doubts have
  // ended lately, since the report of that may have been lost with the former Session.
  void Repeat();

  bool InDoubt(const std::string& peer) const;

 private:
  static constexpr size_t kLeastBytes = 64;
  // The least size of an echo whose answer ends a doubt. It is more than one packet, because a line
  // may pass only small packets, and these must not end a doubt that an exchange has found.
  static constexpr size_t kProofBytes = 2048;

  struct Member {
    std::string address;
    bool watched = false;
    bool asked = false;  // True while an echo is under way.
    // True from a first failure until the member answers a large echo or is in doubt.
    bool suspect = false;
    std::string doubt;  // The reason of the doubt; empty if the member is not in doubt.
    // True if the member is in doubt and has just answered a small echo, so that the next echo is
    // large.
    bool answers_little = false;
    absl::Time mended = absl::InfinitePast();  // The time at which its last doubt ended.
    absl::Time next;                           // The time of the next dial.
    uint64_t dial = 0;                         // The number of the newest dial.
  };
  // The doubt of a member that is gone.
  struct Gone {
    std::string address;
    std::string doubt;
    absl::Time since;
  };

  absl::Duration Kept() const;  // How long a doubt counts without news of it.
  // Returns the record of a member that is new or has come back.
  Member Return(const v1::Member& one);
  void Heard(const std::string& peer, const std::string& address, const absl::Status& status);
  void Tell(const std::string& peer, const Member& member);
  void Dial(const std::string& peer, Member* member);
  void DialDue();
  void Schedule();

  const Env env_;
  const std::string self_;
  const Send send_;

  WakeCalls calls_;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  size_t bytes_ = kLeastBytes;  // The size of an echo.
  std::map<std::string, Member> members_;
  std::map<std::string, Gone> gone_;
  uint64_t dials_ = 0;
  std::map<std::string, std::string> by_address_;
  Executor::TimerId timer_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
