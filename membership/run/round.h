// Round: decides which peers train for one entry, records which are ready, and decides when the
// waiting ends.
//
//   waiting --enough trainers--> open --all ready, or quorum + deadline--> closed
//
// When the round is closed, its exchange begins. A trainer is a member whose worker runs and that
// either holds the base of the round or continues its training for an earlier round. The first
// round of a run opens when all announced trainers are present except those set aside (see Roster);
// every later round opens when the quorum is. A straggler keeps its activity when an entry is
// committed without it. In mode "async" the first round also waits only for the quorum, and each
// round closes when the quorum has been ready for AsyncGrace, so that other peers can join its
// entry. A peer that has sent kMostHellos Hellos during one training is no longer waited for,
// because its line lets nothing else through.
//
// In a federation only drawn peers train (participation.h). They are drawn from all trainers that
// hold the base or will hold it in a moment. If a drawn peer dies or is late, or its update is
// refused, the next peer in the order of the draw replaces it. If none of the drawn peers can be
// dialled, the next one that can be is also drawn. The quorum is then multiplied by the share that
// is drawn, but is at least 1. A peer whose update is dropped is neither waited for nor counted. No
// update is dropped if this would leave no peer, or no peer that others can dial.
//
// With a pipeline a peer that trains is also given a training for the next round. It begins when
// the peer's update is ready. It becomes the peer's training once this round's entry is committed.
// If that entry left the update out and the update can still be used, the training continues beside
// the update for one more round. In mode "streaming" an update that was left out is dropped. The
// class has more than forty methods because each event of a training has one, and each question
// about when the round opens, which peers it takes and when it closes has one. Pure: time and
// roster are arguments. Used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/pace.h"
#include "membership/run/participation.h"
#include "membership/run/roster.h"
#include "membership/run/training_state.h"

namespace atolld {

class Round {
 public:
  // `started` is true if a round of the run has begun before. `version` is the version of the
  // round's entry.
  Round(const RoundSettings& settings, bool started, uint64_t version);

  // Called after a restart with the stored records of earlier rounds, so that the deadline for
  // stragglers is as long as before.
  void Remember(absl::Span<const v1::RoundRecord> rounds);
  const RecentTimes& ready_times() const { return ready_times_; }

  uint64_t version() const { return version_; }
  bool started() const { return started_; }
  // True for a run of one peer.
  bool alone() const { return settings_.peers <= 1 && settings_.quorum <= 1; }
  bool open() const { return open_; }
  // The reason why the round waits; empty if it does not wait.
  const std::string& reason() const { return reason_; }

  // Returns the peer's training state so that the caller may change it. The activity must be
  // changed with SetActivity.
  TrainingState& trainer(const std::string& peer);
  void SetActivity(const std::string& peer, Activity activity);
  const TrainingState* Find(const std::string& peer) const;
  absl::Duration ReadyAfter(const std::string& peer) const {
    const TrainingState* const known = Find(peer);
    return known == nullptr ? absl::ZeroDuration() : known->ready_after;
  }

  // Opens the round if enough trainers are present. Returns true if it is open now; otherwise
  // reason() says what it waits for.
  bool TryOpen(absl::Time now, const Roster& roster);
  // Limits how often all peers are examined to open the round or to draw.
  LookPace& look_pace() { return look_pace_; }
  const LookPace& look_pace() const { return look_pace_; }

  // Makes these peers sit out, in their order, as long as at least `needed` peers, the quorum and
  // fewest() are present without them, and one of those can be dialled by others. Replaces the
  // previous set of such peers, and returns the peers that are new in the set.
  std::vector<std::string> LeaveOut(const Roster& roster, const std::vector<std::string>& peers,
                                    size_t needed);

  // Returns the trainers that are present for this round, in roster order: those that train, have
  // an update, or could begin.
  std::vector<std::string> There(const Roster& roster) const;
  // Returns the trainers that are free to train for this round, in roster order.
  std::vector<std::string> Idle(const Roster& roster) const;
  // Returns the idle trainers that must be sent a Train now: all, or only the drawn ones. Returns
  // none during the grace after a restart.
  std::vector<std::string> ToTrain(absl::Time now, const Roster& roster) const;
  // Does the same, but returns no peer while a draw among many peers is postponed (see LookPace).
  std::vector<std::string> ToTrainNow(absl::Time now, const Roster& roster);
  // Returns, by peer and in words, why some trainers are idle in an open round or train on without
  // being waited for.
  std::map<std::string, std::string> Notes(absl::Time now, const Roster& roster) const;
  void Assign(absl::Time now, const std::string& peer, double rounds = 1);
  // MayTrainAhead returns the peers, sorted by name, that may be given a training for the next
  // round, which begins once their update is ready. SetAhead records such a training, and DropAhead
  // removes it.
  std::vector<std::string> MayTrainAhead(const Roster& roster) const;
  void SetAhead(const std::string& peer, const AheadTraining& ahead);
  void DropAhead(const std::string& peer);
  // Called when the peer's worker died. The worker's inner steps are lost, but a finished update is
  // not. Returns true if the peer was training. The round still waits for the peer as long as a new
  // worker could be ready in time.
  bool LoseWorker(const std::string& peer);
  // Called when the peer's contribution is ready. Records how long the peer took since its Train,
  // even if the update is late. If the peer trained before this process knew of it, the time that
  // the peer reports counts instead.
  void SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready);

  // Returns true if the exchange may begin. Late joiners are not waited for: a peer that was given
  // its Train later than a quarter of the usual time after the opening contributes to the next
  // entry. Sets reason() if fewer than the quorum are left.
  bool MayClose(absl::Time now, const Roster& roster);
  // The smallest number of updates that may be committed, according to the last MayClose. It counts
  // only drawn peers whose updates are not dropped.
  size_t quorum() const { return quorum_; }
  // The smallest number of updates with which an attempt may begin: parties mask their updates only
  // among so many, and the sum may end with fewer.
  size_t fewest() const { return std::max<size_t>(quorum_, settings_.fewest); }
  // Returns when the round stops waiting for stragglers, or InfiniteFuture if it is not open or no
  // times are known yet.
  absl::Time CloseDeadline() const;
  // Returns the peers that are connected and ready, in roster order.
  std::vector<std::string> Ready(const Roster& roster) const;

  // Returns the idle peers that hold the state of this version. If there are none, returns the busy
  // peers that hold it; these will answer later.
  std::vector<std::string> Evaluators(const Roster& roster, uint64_t version) const;
  // Returns only the idle peers that hold the state, and adds the busy ones to `busy`.
  std::vector<std::string> Evaluators(const Roster& roster, uint64_t version,
                                      std::vector<std::string>* busy) const;
  // Returns the peer that must make version 0: the best of the peers with the fewest failed
  // requests, whose numbers are in `in_vain`. If no peer can make it yet, returns "" and sets
  // `reason`. Sets `lacks_reachable` to whether there are peers that could make it but have no
  // address at which others could fetch it.
  std::string GenesisMaker(const Roster& roster, const std::map<std::string, uint64_t>& in_vain,
                           std::string* reason, bool* lacks_reachable) const;

  // Called when the entry is committed. The contributors become free, or continue with what they
  // train ahead. All other peers that trained or were ready continue. Returns the peers whose
  // updates are settled: the contributors, and those whose updates are dropped.
  std::vector<std::string> Next(const std::vector<std::string>& contributors);
  // Called when the peer's update can no longer be used. The peer becomes idle.
  void Free(const std::string& peer);
  // Called when the exchange could not be finished. All contributions remain valid, and the peers
  // announce them again.
  void Again(absl::Time now);
  // Called when entries up to `version` - 1 were committed without this round, for example because
  // a longer history was adopted. The round is then for `version`, and the peers announce their
  // updates again.
  void Skip(uint64_t version);
  void Forget(const std::string& peer);

 private:
  absl::Time LatestStart() const;
  bool MayCloseAsync(absl::Time now, const Roster& roster);
  bool StillAwaited(const Roster& roster) const;
  bool There(const RosterMember& member, const TrainingState& trainer) const;
  struct Drawn {
    std::vector<std::string> train;  // the drawn peers that are idle and hold the base
    bool awaited = false;            // true if a drawn peer will have the base in a moment
  };
  Drawn Draw(absl::Time now, const Roster& roster) const;
  // TrainDeadline; nullopt if the round waits for stragglers until they are dead
  std::optional<absl::Duration> Deadline() const;
  absl::Duration TrainedFor(absl::Duration elapsed, const v1::Ready& ready) const;
  bool IsAwaited(const TrainingState& trainer) const;  // `trainer` must be training
  bool IsLate(absl::Time now, const TrainingState& trainer) const;
  bool MayBeDrawn(absl::Time now, const RosterMember& member, const TrainingState& trainer) const;
  bool DropsHold(const Roster& roster) const;
  // Records that peers with a finished update must announce it again.
  void AskAgain();

  const RoundSettings settings_;
  bool started_;
  uint64_t version_;
  size_t quorum_;
  bool open_ = false;
  absl::Time opened_;
  // In mode "async": the time since which a quorum is ready; nullopt if none is.
  std::optional<absl::Time> enough_since_;
  std::string reason_;
  RecentTimes ready_times_;
  std::map<std::string, TrainingState> trainers_;
  std::set<std::string> idle_;  // the idle trainers
  // The trainers that are not idle and have no training ahead.
  std::set<std::string> nothing_next_;
  std::set<std::string> left_out_;
  // A peer that MayClose saw training when Roster::changes() was looked_at_. While this peer
  // trains, the round cannot close, so MayClose need not examine other peers.
  std::string awaited_;
  uint64_t looked_at_ = 0;
  LookPace look_pace_;
};

}  // namespace atolld
