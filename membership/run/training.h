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

namespace atolld {

enum class Activity { kIdle, kTraining, kReady };

struct TrainingState {
  bool worker_ready = false;
  // Its worker was lost in the round for this version, and may be back within it; 0: in none.
  uint64_t worker_lost_in = 0;
  Activity activity = Activity::kIdle;
  // Its Train was sent then; nothing: it was training before this process knew of it.
  std::optional<absl::Time> train_started;
  absl::Duration ready_after;  // the last time: from its Train to its Ready; 0: unknown
  bool resumed = false;  // so that its time is what its Ready tells, not what was measured here
  uint64_t discarded_in = 0;    // the version for which its update was not taken
  uint64_t began_for = 0;       // the version whose round its training began in
  uint64_t train_number = 0;    // of its Train; 0: not known, since it said Hello after it
  uint32_t rounds_at_once = 1;  // that it was told to train for, since its update is dropped
  v1::Ready ready;              // while kReady
};

struct RoundSettings {
  uint32_t peers = 1;                // trainers that the first round waits for
  uint32_t quorum = 1;               // fewest that may commit
  bool private_data = false;         // nothing is leased
  Participation participation = {};  // who is drawn, and whose updates are dropped
};

// What these are with what the run's spec says of its parties.
RoundSettings WithParties(RoundSettings settings, const v1::RunSpec& spec);

// Round: who trains for one entry, who is ready, and when the waiting ends.
//
//   waiting --enough trainers--> open --all ready, or quorum + deadline--> closed
//
// Closed means that the exchange begins. A trainer is a member whose worker runs and that holds the
// base of the round, or whose training for an earlier round still goes on. The first round of a run
// waits for all that were announced; every later one for the quorum. A straggler keeps its activity
// over commits that it missed.
//
// Of a federation only those train that are drawn (participation.h), from all trainers that hold
// the base or will in a moment; one that dies, is late or whose update is not taken is replaced by
// the next in the order of the draw. Where none of them could be dialled, the next one that can be
// is drawn as well. The quorum is then that share of it, at least 1. Whose update is dropped is
// neither waited for nor counted; where nobody would be left, or none that others can dial,
// nobody's is. Pure: time and roster come in as arguments.
class Round {
 public:
  // `started`: some round of the run has begun before. `version`: the entry of the round.
  Round(const RoundSettings& settings, bool started, uint64_t version);

  // How long the training of earlier rounds has taken, as the store tells after a restart: until
  // something is measured anew, stragglers have as long as they had before.
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

  // These sit out, the first before the others, as long as more than `needed` (and the quorum) are
  // there without them, and one that others can dial: neither trained, waited for, nor counted.
  // Replaces who did before; returns those that did not.
  std::vector<std::string> LeaveOut(const Roster& roster, const std::vector<std::string>& peers,
                                    size_t needed);

  // Trainers that are free for a Train of this round (roster order).
  std::vector<std::string> Idle(const Roster& roster) const;
  // Those of them that are to have one: all, or those that are drawn, once all are back that a
  // restart of the coordinator waits for.
  std::vector<std::string> ToTrain(absl::Time now, const Roster& roster) const;
  // Why trainers that are here idle in an open round, or train on without being waited for: by
  // peer, in words.
  std::map<std::string, std::string> Notes(absl::Time now, const Roster& roster) const;
  void Assign(absl::Time now, const std::string& peer, uint32_t rounds_at_once = 1);
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

  // Trainers that hold the state of this version: those that are idle, or, if all are busy, all: a
  // busy worker answers when its steps are done.
  std::vector<std::string> Evaluators(const Roster& roster, uint64_t version) const;
  // Those that are idle; the others to `busy`.
  std::vector<std::string> Evaluators(const Roster& roster, uint64_t version,
                                      std::vector<std::string>* busy) const;
  // Who is to make version 0: of those that were asked in vain least often (`in_vain`: times) the
  // best; "": nobody can yet, and why. `lacks_reachable`: those that could, have no address from
  // which others could fetch it.
  std::string GenesisMaker(const Roster& roster, const std::map<std::string, uint64_t>& in_vain,
                           std::string* reason, bool* lacks_reachable) const;

  // The entry is committed. `contributors` are free again; whoever else trained or was ready goes
  // on.
  void Next(const std::vector<std::string>& contributors);
  // The exchange could not be finished: every contribution stands and will be announced again.
  void Again(absl::Time now);
  // Entries were committed without this round, up to the one before `version`: updates go on to it.
  void Skip(uint64_t version);
  void Forget(const std::string& peer);

 private:
  absl::Time LatestStart() const;
  bool StillAwaited(const Roster& roster) const;
  bool There(const RosterMember& member, const TrainingState& trainer) const;
  struct Drawn {
    std::vector<std::string> train;  // idle, and at the base
    bool awaited = false;            // somebody that is drawn will be at the base in a moment
  };
  Drawn Draw(absl::Time now, const Roster& roster) const;
  bool IsLate(absl::Time now, const TrainingState& trainer) const;
  bool MayBeDrawn(absl::Time now, const RosterMember& member, const TrainingState& trainer) const;
  bool DropsHold(const Roster& roster) const;

  const RoundSettings settings_;
  bool started_;
  uint64_t version_;
  size_t quorum_;
  bool open_ = false;
  absl::Time opened_;
  std::string reason_;
  RecentTimes ready_times_;
  std::map<std::string, TrainingState> trainers_;
  std::set<std::string> idle_;  // of them
  std::set<std::string> left_out_;
  // Somebody who was training when MayClose looked at all, and the roster's count of changes then:
  // while that one trains on, nothing else needs a look.
  std::string awaited_;
  uint64_t looked_at_ = 0;
};

// "2 of 3 peers are here; waiting for one more"
std::string WaitingReason(size_t there, size_t needed);

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
  v1::Train Assign(absl::Time now, const std::string& peer, uint64_t epoch, uint32_t steps,
                   const v1::RunSpec& spec);
  void LoseWorker(const std::string& peer);
  // It goes on with these samples, which it names; false: they are none of its own, and it stops.
  // With private data it names none: `trains` says that it goes on.
  bool Resume(const std::string& peer, absl::Span<const v1::SampleRange> samples,
              bool trains = false);
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
  const bool private_data_;
  const Participation participation_;
  Round round_;
  LeaseBook leases_;
  uint64_t trains_ = 0;   // assigned in this life
  bool changed_ = false;  // the leases
  bool behind_ = false;   // the lease book was: peers may hold samples that it does not know of
};

}  // namespace atolld
