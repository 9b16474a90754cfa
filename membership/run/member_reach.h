// MemberReach: follows which members of a run cannot reach which others, by their own reports and
// by the coordinator's dials.
//
// It says what changes in the log, marks the members that nobody can dial in the roster, and asks
// for the coordinator's dials (RunOutput::probes). What a doubt is, and how long it counts, is in
// membership/planning/reach.h. Pure. Used by one thread.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "membership/planning/reach.h"
#include "membership/run/roster.h"
#include "membership/run/roster_news.h"
#include "membership/run/run_output.h"

namespace atolld {

class MemberReach {
 public:
  // `roster` and `news` must outlive this object.
  MemberReach(Roster& roster, RosterNews& news, absl::Duration failure_timeout);

  const Reach& doubts() const { return reach_; }
  // Returns true if more than MostAccused connected peers are unreachable for this peer only.
  bool CutOff(const std::string& peer) const;

  // Takes a member's report of its dials. Returns true if the dialled peer now counts as
  // unreachable and did not before.
  bool NoteReached(absl::Time now, const std::string& peer, const v1::Reached& reached,
                   RunOutput* out);
  // Takes the result of the coordinator's own dial to a member's address.
  void NoteDialled(absl::Time now, const std::string& peer, ProbeResult result, RunOutput* out);

  // Called when the peer has joined: as the process that it was before, if `same`. Another process
  // may be reached, and may reach others. It must be known whether it answers before any peer
  // depends on it.
  void OnJoined(absl::Time now, const std::string& peer, bool same, RunOutput* out);
  // Called when the peer is gone. The doubts that name it count again if the same process comes
  // back.
  void OnGone(absl::Time now, const std::string& peer, RunOutput* out);
  // Called when the peer will not be named any more.
  void Forget(const std::string& peer);
  // Drops doubts that were not repeated (Reach::Lapse), and dials members that were not dialled for
  // long.
  void Tick(absl::Time now, RunOutput* out);

  void Show(absl::Time now, v1::RunStatus* status) const;

 private:
  void Doubt(absl::Time now, const std::string& from, const std::string& to,
             const std::string& reason, RunOutput* out);
  void Settle(absl::Time now, const std::string& from, const std::string& to, RunOutput* out);
  void Follow(absl::Time now, const std::string& peer, RunOutput* out);
  void Dial(absl::Time now, const std::string& peer, const std::string& address, RunOutput* out);

  Roster& roster_;
  RosterNews& news_;
  const absl::Duration failure_timeout_;
  Reach reach_;
  std::map<std::string, absl::Time> dialled_at_;  // the coordinator's last dial of each peer
};

}  // namespace atolld
