// Beginning: who makes version 0 of a run, and whether the others get it.
//
//   nobody --a trainer is asked--> made --recorded--> given to others --> the first round
//             ^                     |                        |
//             +---- in time? -------+------ to anybody? -----+
//
// Whoever is asked and does not make it in time, and whoever gives it to nobody in time, is asked
// again after all others. What is recorded first stands, and it stands for good once a round has
// begun; until then another one's may take its place, since nothing was trained from it and nobody
// but its maker holds it. Pure; one thread.
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
  // `settings` outlives it.
  explicit Beginning(const RunSettings& settings) : settings_(settings) {}

  bool asked() const { return !maker_.empty(); }
  // What it was asked will not be answered: its session broke, its worker ended, it is gone.
  void Forget(const std::string& peer) {
    if (maker_ == peer) maker_.clear();
  }
  // Another process of it may have what the last one lacked.
  void ForgetRefusal(const std::string& peer) {
    if (InVain(peer) >= kCannot) in_vain_.erase(peer);
  }

  // There is no version 0: asks somebody for it, or somebody else. Says in `reason` what is waited
  // for; `lacks_reachable`: for somebody whom others can dial.
  void Advance(absl::Time now, const Members& members, const Round& round, RunOutput* out,
               std::string* reason, bool* lacks_reachable);
  // Whether its version 0 counts: it was asked for it, or at least not in vain. One without a
  // genesis is the answer that it cannot make it; it is not asked again before it says Hello anew.
  bool Takes(const std::string& peer, const v1::InitialState& initial);
  void OnRecorded() {
    maker_.clear();
    deadline_ = absl::InfiniteFuture();
  }
  // Version 0 is recorded, and no round has begun. True: at most one peer holds it, and has given
  // it to none of those that lack it for so long that it is to be made anew. Adds to `reason`.
  bool Hoarded(absl::Time now, const Ledger& ledger, const Members& members, const Round& round,
               RunOutput* out, std::string* reason);

  absl::Time Deadline() const { return deadline_; }  // InfiniteFuture: nothing is waited for

 private:
  // In place of the times that it was waited for: it lacks what version 0 is made from.
  static constexpr uint64_t kCannot = uint64_t{1} << 32;

  uint64_t InVain(const std::string& peer) const;
  void NoteInVain(absl::Time now, const std::string& peer);

  const RunSettings& settings_;
  std::string maker_;                               // was asked; "": nobody
  absl::Time deadline_ = absl::InfiniteFuture();    // for what is waited for now
  std::map<std::string, uint64_t> in_vain_;         // times that each was waited for
  absl::Time others_until_ = absl::InfinitePast();  // whoever was not asked in vain comes first
  uint64_t kept_ = 0;                               // times that nobody was given it
  absl::Time hoarded_since_ = absl::InfiniteFuture();
};

}  // namespace atolld
