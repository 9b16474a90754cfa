// Beginning: chooses the peer that makes version 0 of a run, and checks that the others get it.
//
//   no peer --a trainer is asked--> made --recorded--> given to others --> the first round
//              ^                     |                        |
//              +---- in time? -------+------ to any peer? ----+
//
// A peer that is asked and does not make it in time, or that gives it to no other peer in time, is
// asked again only after all others. The first version 0 that is recorded becomes the run's, and it
// is final once a round has begun. Until then another peer's version 0 may replace it, because
// nothing was trained from it and only its maker holds it. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/ledger.h"
#include "membership/run/members.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"

namespace atolld {

class Beginning {
 public:
  // `settings` must outlive this object.
  explicit Beginning(const RunSettings& settings) : settings_(settings) {}

  bool asked() const { return !maker_.empty(); }
  // Called when a request to the peer will not be answered: its session broke, its worker ended, or
  // it left.
  void Forget(const std::string& peer) {
    if (maker_ == peer) maker_.clear();
  }
  // Called when the peer has restarted, because the new process may have the files that the last
  // one lacked.
  void ForgetRefusal(const std::string& peer) {
    if (InVain(peer) >= kCannot) in_vain_.erase(peer);
  }

  // Called while there is no version 0. Asks a peer to make it, or another peer if the first is too
  // late. Sets `reason` to what is waited for, and `lacks_reachable` to whether that is a peer that
  // others can dial.
  void Advance(absl::Time now, const Members& members, const Round& round, RunOutput* out,
               std::string* reason, bool* lacks_reachable);
  // Returns true if the peer's version 0 is accepted: the peer is the one that was asked, or has
  // never failed to make it in time. A message without a genesis means that the peer cannot make
  // version 0. It is then not asked again until it has restarted.
  bool Takes(const std::string& peer, const v1::InitialState& initial);
  void OnRecorded() {
    maker_.clear();
    deadline_ = absl::InfiniteFuture();
  }
  // Called when version 0 is recorded and no round has begun. Returns true if at most one peer
  // holds it and has not given it to any peer that lacks it for so long that another version 0 must
  // be made. Adds an explanation to `reason`.
  bool Hoarded(absl::Time now, const Ledger& ledger, const Members& members, const Round& round,
               RunOutput* out, std::string* reason);

  absl::Time Deadline() const { return deadline_; }  // InfiniteFuture if nothing is waited for

 private:
  // The value in `in_vain_` for a peer that lacks the files to make version 0.
  static constexpr uint64_t kCannot = uint64_t{1} << 32;

  uint64_t InVain(const std::string& peer) const;
  void NoteInVain(absl::Time now, const std::string& peer);

  const RunSettings& settings_;
  // The peer that was asked; "" if there is none.
  std::string maker_;
  // The end of the current wait.
  absl::Time deadline_ = absl::InfiniteFuture();
  // How often each peer has failed to make version 0 in time.
  std::map<std::string, uint64_t> in_vain_;
  // The time until which peers without a failure are preferred.
  absl::Time others_until_ = absl::InfinitePast();
  uint64_t kept_ = 0;  // how many versions 0 were given up because no other peer got them
  absl::Time hoarded_since_ = absl::InfiniteFuture();
};

}  // namespace atolld
