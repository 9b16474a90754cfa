// UpdateJudge: what the coordinator makes of what updates tell of their lengths: which of them it
// does not take, by how much each is scaled down, and who is left out for what its updates were.
//
//   scale_i = min(1, clip x reference / length_i)
//
// A length is the update's norm or, for a rule with a centre, its distance from it. The reference
// is the lower median of the lengths of all contributors of the exchange that are at least 2^-100
// (less is as good as nothing), held to those of past rounds (optimizer/past_updates.h). An
// update that would have to be scaled below 2^-100 is refused.
//
// Offences count by committed rounds (optimizer/past_updates.h): an update that the coordinator
// refused, that reducers have reported, or that was outsized. What it knows is in a JudgeRecord,
// which is stored with each commit. Pure; one thread.
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

// What the coordinator keeps of a peer's updates (update_judge.h).
struct JudgedPeer {
  std::string peer;
  uint64_t offences = 0;  // an OffenceRecord: of the last 64 rounds, the newest in the lowest bit
  uint64_t refused = 0;   // chunks and whole updates
  uint64_t clipped = 0;   // updates that were scaled down
  std::string offence;    // the last, in words; empty: none
};

struct JudgeRecord {
  std::vector<double>
      medians;  // of the updates' lengths in the last committed rounds, oldest first
  std::vector<JudgedPeer> peers;  // ascending by name
};

struct JudgeSettings {
  double clip = 0;           // reference lengths; 0: no update is scaled down
  bool from_centre = false;  // lengths are distances
  bool remembers = true;     // lengths of other rounds; false: those are of other fragments
  size_t least = 1;          // updates that the rule takes
  size_t most = SIZE_MAX;
  OffenderRule offenders;
};

class UpdateJudge {
 public:
  UpdateJudge(const JudgeSettings& settings, const JudgeRecord& stored);

  const JudgeSettings& settings() const { return settings_; }

  // INVALID_ARGUMENT: no update of so many fp32 values has such a norm or distance.
  absl::Status Check(const v1::Ready& ready, uint64_t parameters) const;

  // Which of them make an exchange, ascending: all, unless the rule takes no more than some (those
  // go first that have waited longest), or has a centre that some do not hold (their distances are
  // 0): these are left out where enough others do, and one of those can be dialled.
  std::vector<size_t> Choose(absl::Span<const ExchangeContributor> contributors,
                             absl::Span<const uint32_t> ages, size_t quorum) const;

  // Sets the scales of an exchange's contributors, whose members tell their norms. Returns those
  // whose updates are too long for any scale, which are not to contribute.
  std::set<std::string> Scale(std::vector<ExchangeContributor>* contributors);

  // The coordinator does not take an update of this peer.
  void NoteRefused(const std::string& peer, const std::string& why);
  // A reducer or relay has refused what `report` says. True once enough of those that average for
  // the contributor have: no single one's word makes an offence where there are others.
  bool NoteReport(const v1::Plan& plan, const std::string& reporter,
                  const v1::UpdateRefused& report);

  // The exchange that was scaled last is committed, or was given up. Returns what is to be told, a
  // line each.
  std::vector<std::string> NoteCommit(const v1::EntryHeader& header);
  std::vector<std::string> NoteGivenUp();

  // Those who are left out by their records, the worst first.
  std::vector<std::string> Offenders() const;
  void Forget(const std::string& peer) { peers_.erase(peer); }

  JudgeRecord Record() const;
  void Show(const std::string& peer, v1::PeerStatus* status) const;

 private:
  double LengthOf(const v1::PlanMember& member) const;
  std::vector<std::string> EndRound(bool committed);

  const JudgeSettings settings_;
  std::vector<double> medians_;
  std::map<std::string, JudgedPeer> peers_;

  // Of the exchange under way.
  double round_median_ = 0;
  std::map<std::string, std::string> outsized_;  // in words
  std::set<std::string> clipped_;                // by Scale
  std::map<std::string, std::string> refused_;
  std::map<std::string, std::set<std::string>> reporters_;  // by contributor
};

}  // namespace atolld
