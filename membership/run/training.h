// The training part of a run: one round of it (Round), and on which samples whose inner steps are
// (Training).
#pragma once

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
#include "atoll/v1/run.pb.h"
#include "membership/run/leases.h"
#include "membership/run/pace.h"
#include "membership/run/participation.h"
#include "membership/run/roster.h"
#include "membership/run/training_state.h"

namespace atolld {

// Round: who trains for one entry, who is ready, and when the waiting ends.
//
//   waiting --enough trainers--> open --all ready, or quorum + deadline--> closed
//
// Closed means that the exchange begins. A trainer is a member whose worker runs and that holds the
// base of the round, or whose training for an earlier round still goes on. The first round of a run
// waits for all that were announced; every later one for the quorum. A straggler keeps its activity
// over commits that it missed. In mode "async" the first round, too, waits for the quorum alone,
// and each closes when the quorum has been ready for AsyncGrace, so that others share its entry.
//
// Of a federation only those train that are drawn (participation.h), from all trainers that hold
// the base or will in a moment; one that dies, is late or whose update is not taken is replaced by
// the next in the order of the draw. Where none of them could be dialled, the next one that can be
// is drawn as well. The quorum is then that share of it, at least 1. Whose update is dropped is
// neither waited for nor counted; where nobody would be left, or none that others can dial,
// nobody's is.
//
// With a pipeline whoever trains is given a training for the next round as well. It begins when the
// update stands, to be the training once this round's entry is committed, or, where that has left
// the update out and it stands on, beside it for one round more. In mode "streaming" an update that
// was left out is dropped. Pure: time and roster come in as arguments.
class Round {
 public:
  // `started`: some round of the run has begun before. `version`: the entry of the round.
  Round(const RoundSettings& settings, bool started, uint64_t version);

  // How long earlier rounds took, as the store tells after a restart: so stragglers have as long.
  void Remember(absl::Span<const v1::RoundRecord> rounds);
  const RecentTimes& ready_times() const { return ready_times_; }

  uint64_t version() const { return version_; }
  bool started() const { return started_; }
  bool alone() const { return settings_.peers <= 1 && settings_.quorum <= 1; }  // a run of one peer
  bool open() const { return open_; }
  const std::string& reason() const { return reason_; }  // why it waits; empty while it does not

  // To change all but its activity, which SetActivity does.
  TrainingState& trainer(const std::string& peer);
  void SetActivity(const std::string& peer, Activity activity);
  const TrainingState* Find(const std::string& peer) const;
  absl::Duration ReadyAfter(const std::string& peer) const {
    const TrainingState* const known = Find(peer);
    return known == nullptr ? absl::ZeroDuration() : known->ready_after;
  }

  // Opens the round if enough trainers are there. True if it is open now; else reason() says what
  // it waits for.
  bool TryOpen(absl::Time now, const Roster& roster);
  LookPace& look_pace() { return look_pace_; }  // of that, and of draws
  const LookPace& look_pace() const { return look_pace_; }

  // These sit out, the first before the others, as long as more than `needed` (and the quorum) are
  // there without them, and one that others can dial. Replaces who did; returns those that did not.
  std::vector<std::string> LeaveOut(const Roster& roster, const std::vector<std::string>& peers,
                                    size_t needed);

  // Trainers that are free for a Train of this round (roster order).
  std::vector<std::string> Idle(const Roster& roster) const;
  // Those of them that are to have one: all, or the drawn ones, once a restart's grace is over.
  std::vector<std::string> ToTrain(absl::Time now, const Roster& roster) const;
  // The same; nobody while a draw among many is put off (LookPace).
  std::vector<std::string> ToTrainNow(absl::Time now, const Roster& roster);
  // Why trainers idle in an open round, or train on without being waited for: by peer, in words.
  std::map<std::string, std::string> Notes(absl::Time now, const Roster& roster) const;
  void Assign(absl::Time now, const std::string& peer, double rounds = 1);
  // Those who may have a training for the next round already, to be begun once their update stands
  // (in the order of their names), and that one has. DropAhead: not any more.
  std::vector<std::string> MayTrainAhead(const Roster& roster) const;
  void SetAhead(const std::string& peer, const AheadTraining& ahead);
  void DropAhead(const std::string& peer);
  // Its worker died. Its inner steps are lost, an update that stands is not. True if it was
  // training. It is awaited while a new worker could still be ready with the others.
  bool LoseWorker(const std::string& peer);
  // Its contribution stands. Measures the time since its Train, however late it is; of one that
  // trained before this process knew of it, its own word counts.
  void SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready);

  // May the exchange begin? Nobody waits for a joiner: who was given its Train later than a quarter
  // of the usual time after the opening contributes to the next entry. Sets reason() when fewer
  // than the quorum are left.
  bool MayClose(absl::Time now, const Roster& roster);
  // Fewest updates that may commit, as MayClose has found last: of those that are drawn and whose
  // updates are not dropped.
  size_t quorum() const { return quorum_; }
  absl::Time CloseDeadline() const;  // InfiniteFuture: not open, or nothing is known yet
  std::vector<std::string> Ready(const Roster& roster) const;  // connected and ready, roster order

  // Who holds the state of this version: the idle, or, if all are busy, all: they answer later.
  std::vector<std::string> Evaluators(const Roster& roster, uint64_t version) const;
  // Those that are idle; the others to `busy`.
  std::vector<std::string> Evaluators(const Roster& roster, uint64_t version,
                                      std::vector<std::string>* busy) const;
  // Who is to make version 0: of those that were asked in vain least often (`in_vain`: times) the
  // best; "": nobody can yet, and why. `lacks_reachable`: those that could, have no address from
  // which others could fetch it.
  std::string GenesisMaker(const Roster& roster, const std::map<std::string, uint64_t>& in_vain,
                           std::string* reason, bool* lacks_reachable) const;

  // The entry is committed. `contributors` are free again, or at what they have trained ahead;
  // whoever else trained or was ready goes on. Returns those whose updates are settled by that:
  // the contributors, and those whose updates are dropped.
  std::vector<std::string> Next(const std::vector<std::string>& contributors);
  // Its update is of no use any more.
  void Free(const std::string& peer);
  // The exchange could not be finished: every contribution stands and will be announced again.
  void Again(absl::Time now);
  // Entries were committed without this round, up to the one before `version`: updates go on to it.
  void Skip(uint64_t version);
  void Forget(const std::string& peer);

 private:
  absl::Time LatestStart() const;
  bool MayCloseAsync(absl::Time now, const Roster& roster);
  bool StillAwaited(const Roster& roster) const;
  bool There(const RosterMember& member, const TrainingState& trainer) const;
  struct Drawn {
    std::vector<std::string> train;  // idle, and at the base
    bool awaited = false;            // somebody that is drawn will be at the base in a moment
  };
  Drawn Draw(absl::Time now, const Roster& roster) const;
  std::optional<absl::Duration> Deadline() const;  // TrainDeadline, where it ends the waiting
  bool BeganTooLate(const TrainingState& trainer) const;
  bool IsLate(absl::Time now, const TrainingState& trainer) const;
  bool MayBeDrawn(absl::Time now, const RosterMember& member, const TrainingState& trainer) const;
  bool DropsHold(const Roster& roster) const;
  void AskAgain();  // updates that stand are to be said again

  const RoundSettings settings_;
  bool started_;
  uint64_t version_;
  size_t quorum_;
  bool open_ = false;
  absl::Time opened_;
  std::optional<absl::Time> enough_since_;  // in mode "async": so long a quorum is ready
  std::string reason_;
  RecentTimes ready_times_;
  std::map<std::string, TrainingState> trainers_;
  std::set<std::string> idle_;          // of them
  std::set<std::string> nothing_next_;  // of the others: nothing is given to train ahead
  std::set<std::string> left_out_;
  // MayClose saw it train, at so many changes of the roster: until it ends nothing needs a look.
  std::string awaited_;
  uint64_t looked_at_ = 0;
  LookPace look_pace_;
};

// Training: the round and the lease book of a run, which change together: whoever stops training
// hands its samples back, unless they may be in a mean already.
//
// With private data nothing is leased: an update is its peer's until an entry names the peer, which
// has taken it then. Whether one has meanwhile, of a peer that says what it trains on, is told.
//
// Law: a change of the leases is stored with its call's update (TakeChanged). Pure; one thread.
class Training {
 public:
  Training(const RoundSettings& settings, bool started, uint64_t version,
           const LeaseRecords& leases);

  Round& round() { return round_; }
  const Round& round() const { return round_; }
  const LeaseBook& leases() const { return leases_; }
  // The leases, if they have changed since they were taken last.
  std::optional<LeaseRecords> TakeChanged();

  // What the peer is to do for the round from now on, instead of whatever it did.
  v1::Train Assign(absl::Time now, const std::string& peer, uint64_t epoch, const PacedSteps& paced,
                   const v1::RunSpec& spec);
  // Beside the update that it offers or will: for the round after.
  v1::Train AssignAhead(absl::Time now, const std::string& peer, uint64_t epoch,
                        const PacedSteps& paced, const v1::RunSpec& spec);
  bool trains_ahead() const { return settings_.trains_ahead; }
  void DropAhead(const std::string& peer);  // what it trains so, if anything; its samples are free
  // An update for an earlier entry came from it, when that was committed: in mode "streaming" the
  // peer has dropped it or will, and is free.
  void DropLate(const std::string& peer, const v1::Ready& ready);
  void LoseWorker(const std::string& peer);
  // It goes on with these, which it names; false: the samples are none of its own, and it stops.
  // With private data it names none: `trains` says that it goes on.
  bool Resume(const std::string& peer, const HeldTraining& held);
  void Stop(const std::string& peer);      // it trains no more; its samples stay its own
  void TakeBack(const std::string& peer);  // the samples that it holds, if any
  void TakeBackIfIdle(const std::string& peer);
  void Discard(const std::string& peer);  // its update, so it is idle and holds nothing

  // A peer names what it trained or trains on. False: they are not its own; nothing has changed.
  bool Adopt(const std::string& peer, absl::Span<const v1::SampleRange> samples);
  // False: the update answers an older Train, and crossed the one that was to replace it.
  bool Answers(const std::string& peer, const v1::Ready& ready) const;
  // The same of one that offers an update. Nothing named: what it holds; with private data: it was
  // asked for an update that no entry has taken yet.
  bool MayOffer(const std::string& peer, absl::Span<const v1::SampleRange> samples);
  uint64_t Held(const std::string& peer) const;  // number of samples
  // Its update counts. What it was trained on is what it holds, in as few ranges as that makes:
  // they stand in the header.
  void SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready);

  // The entry is committed: who is named has spent its samples. Returns those, in its order.
  std::vector<std::string> Settle(const v1::EntryHeader& header, const v1::Plan& plan);

  // Version 0 is there, and nothing granted: the first sample (a branch's is behind its parent's).
  void BeginAt(uint64_t first_sample);

  // A history up to the version before `version` was adopted, and this lease book with it: peers
  // may hold samples that it does not know of. Updates of those whose samples are spent are in the
  // history already; with private data, of those whom its headers name.
  void AdoptHistory(LeaseBook leases, uint64_t version, const Roster& roster,
                    const v1::Headers& headers);
  // A peer holds these. Those that a book which was behind does not know of become free; in a run
  // that has granted fresh ones since (not `only_recovered`) there are none.
  void Reach(absl::Span<const v1::SampleRange> samples, bool only_recovered);

 private:
  v1::Train MakeTrain(uint64_t version, uint64_t epoch, uint32_t steps, const v1::RunSpec& spec,
                      const std::string& peer, const std::string& holder);
  void ResumeAhead(const std::string& peer, const HeldTraining& held);

  const RoundSettings settings_;
  Round round_;
  LeaseBook leases_;
  uint64_t trains_ = 0;   // assigned in this life
  bool changed_ = false;  // the leases
  bool behind_ = false;   // the lease book was: peers may hold samples that it does not know of
};

}  // namespace atolld
