// UpdateJudge: judges updates by their lengths for the coordinator. It decides which updates are
// refused, by how much each is scaled down, and which peers are left out because of their past
// updates.
//
//   scale_i = min(1, clip x reference / length_i)
//
// A length is the update's norm or, for a rule with a centre, its distance from the centre, over
// the square root of the share of the values that it covers: so updates of different experts
// compare. The reference is the lower median of all contributors' lengths that are at least 2^-100
// (shorter updates are practically zero), within bounds that follow from past rounds (see
// optimizer/past_updates.h). An update that would have to be scaled below 2^-100 is refused.
//
// The record of a peer has one bit for each committed round, which is set if the peer committed an
// offence in it (see optimizer/past_updates.h). An offence is an update that the coordinator
// refused, that reducers have reported, or that was too long for any scale. The state is a
// JudgeRecord, which is stored with each commit. Pure. Used by one thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/reduction_plan.h"
#include "optimizer/past_updates.h"

namespace atolld {

// The coordinator's record of a peer's updates.
struct JudgedPeer {
  std::string peer;
  // An OffenceRecord of the last 64 rounds, the newest in the lowest bit.
  uint64_t offences = 0;
  uint64_t refused = 0;  // the number of refused chunks and whole updates
  uint64_t clipped = 0;  // the number of updates that were scaled down
  std::string offence;   // the last offence in words; empty if there is none
};

struct JudgeRecord {
  // The median lengths of the updates in the last committed rounds, oldest first.
  std::vector<double> medians;
  std::vector<JudgedPeer> peers;  // ascending by name
};

struct JudgeSettings {
  // The greatest unscaled length, as a multiple of the reference; 0 if no update is scaled down.
  double clip = 0;
  bool from_centre = false;  // true if lengths are distances from the rule's centre
  // False if the lengths of other rounds do not count, because those rounds were for other
  // fragments.
  bool remembers = true;
  size_t least = 1;  // the fewest updates with which the aggregation rule works
  size_t most = SIZE_MAX;
  OffenderRule offenders;
};

class UpdateJudge {
 public:
  // A peer is left out for a number of rounds because of its record. Once this many attempts at a
  // round were given up, the records do not count in that round: it may need those peers.
  static constexpr uint32_t kAttemptsUntilLetIn = 4;

  UpdateJudge(const JudgeSettings& settings, const JudgeRecord& stored);

  const JudgeSettings& settings() const { return settings_; }

  // Fails with INVALID_ARGUMENT if no update of `parameters` fp32 values can have the norm or
  // distance that `ready` reports.
  absl::Status Check(const v1::Ready& ready, uint64_t parameters) const;

  // Returns the positions of the contributors that take part in an exchange, ascending. These are
  // all contributors, with two exceptions. If the rule has a greatest number of updates, those that
  // have waited longest are chosen. If the rule has a centre, the contributors that do not hold it
  // (their distance is 0) are left out, provided that enough others hold it and one of those can be
  // dialled.
  std::vector<size_t> Choose(absl::Span<const ExchangeContributor> contributors,
                             size_t quorum) const;

  // Sets the scales of an exchange's contributors from the norms in their PlanMember. Returns the
  // peers with updates that are too long for any scale, which must not contribute. The length
  // from which an update is outsized is that of OffenderRule, once more for each entry that the
  // update missed, up to eight, because a late update includes the way that the state has moved
  // meanwhile.
  std::set<std::string> Scale(std::vector<ExchangeContributor>* contributors);

  // Called when the coordinator refuses an update of this peer.
  void NoteRefused(const std::string& peer, const std::string& why);
  // Called with each revision of the plan of the exchange that was scaled last.
  void NotePlan(const v1::Plan& plan);
  // Called when a reducer or relay has refused the update in `report`. Returns true once enough of
  // the peers that average or have averaged for the contributor in this exchange have reported it.
  // If there are several such peers, the report of a single one does not make it an offence, even
  // if by its word the others average no more.
  bool NoteReport(const std::string& reporter, const v1::UpdateRefused& report);

  // Called when the exchange that was scaled last is committed, or was given up. Returns the
  // messages to log, one line each.
  std::vector<std::string> NoteCommit(const v1::EntryHeader& header);
  std::vector<std::string> NoteGivenUp();

  // Returns the peers that are left out: for as many refused updates since the last commit as make
  // an offender, or for their records (see kAttemptsUntilLetIn). The former come first, then the
  // worst records.
  std::vector<std::string> Offenders() const;
  void Forget(const std::string& peer) {
    peers_.erase(peer);
    refusals_.erase(peer);
  }

  JudgeRecord Record() const;
  void Show(const std::string& peer, v1::PeerStatus* status) const;

 private:
  double LengthOf(const ExchangeContributor& contributor) const;
  std::vector<std::string> EndRound(bool committed);
  void ForgetReports();

  const JudgeSettings settings_;
  std::vector<double> medians_;
  std::map<std::string, JudgedPeer> peers_;

  // The state of the current exchange.
  double round_median_ = 0;
  // Peers with updates too long for any scale, with the reason.
  std::map<std::string, std::string> outsized_;
  // The contributors that Scale has clipped.
  std::set<std::string> clipped_;
  std::map<std::string, std::string> refused_;
  std::map<std::string, uint32_t> refusals_;  // updates refused since the last commit, by peer
  uint32_t given_up_ = 0;                     // the attempts given up since the last commit
  std::set<std::string> contributors_;
  std::set<std::string> collectors_;  // the peers that average under any revision so far
  std::set<std::string> reported_;    // the contributors whose reports were enough
  // The peers that have reported each contributor.
  std::map<std::string, std::set<std::string>> reporters_;
};

}  // namespace atolld
