// Round: the training part of one entry - who trains, who is ready, and when the waiting ends.
//
//   waiting --enough trainers--> open --all ready, or quorum + deadline--> closed
//
// Closed means that the exchange begins. A trainer is a member whose worker runs and that holds the
// base of the round, or whose training for an earlier round still goes on. The first round of a run
// waits for all that were announced; every later one for the quorum. A straggler keeps its activity
// over commits that it missed. Pure: time and roster come in as arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/deadline.h"
#include "membership/run/roster.h"

namespace atolld {

enum class Activity { kIdle, kTraining, kReady };

struct TrainingState {
  bool worker_ready = false;
  // Its worker was lost in the round for this version, and may be back within it; 0: in none.
  uint64_t worker_lost_in = 0;
  Activity activity = Activity::kIdle;
  // Its Train was sent then; nothing: it was training before this process knew of it, so its time
  // is not measured.
  std::optional<absl::Time> train_started;
  v1::Ready ready;  // while kReady
};

struct RoundSettings {
  uint32_t peers = 1;   // trainers that the first round waits for
  uint32_t quorum = 1;  // fewest that may commit
};

class Round {
 public:
  // `started`: some round of the run has begun before. `version`: the entry of the round.
  Round(const RoundSettings& settings, bool started, uint64_t version);

  uint64_t version() const { return version_; }
  bool started() const { return started_; }
  bool alone() const { return settings_.peers <= 1 && settings_.quorum <= 1; }  // a run of one peer
  bool open() const { return open_; }
  const std::string& reason() const { return reason_; }  // why it waits; empty while it does not

  TrainingState& trainer(const std::string& peer) { return trainers_[peer]; }
  const TrainingState* Find(const std::string& peer) const;

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
  void Assign(absl::Time now, const std::string& peer);
  // Its worker died. Its inner steps are lost, an update that stands is not. True if it was
  // training. It is awaited while a new worker could still be ready with the others.
  bool LoseWorker(const std::string& peer);
  // Its contribution stands. Measures the time since its Train, however late it is.
  void SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready);

  // May the exchange begin? Nobody waits for a joiner: who was given its Train later than a quarter
  // of the usual time after the opening contributes to the next entry. Sets reason() when fewer
  // than the quorum are left.
  bool MayClose(absl::Time now, const Roster& roster);
  absl::Time CloseDeadline() const;  // InfiniteFuture: not open, or nothing is known yet
  std::vector<std::string> Ready(const Roster& roster) const;  // connected and ready, roster order

  // The entry is committed. `contributors` are free again; whoever else trained or was ready goes
  // on.
  void Next(const std::vector<std::string>& contributors);
  // The exchange could not be finished: every contribution stands and will be announced again.
  void Again(absl::Time now);
  // Entries were committed without this round, up to the one before `version`: updates go on to it.
  void Skip(uint64_t version);
  void Forget(const std::string& peer) { trainers_.erase(peer); }

 private:
  absl::Time LatestStart() const;
  bool There(const RosterMember& member, const TrainingState& trainer) const;

  const RoundSettings settings_;
  bool started_;
  uint64_t version_;
  bool open_ = false;
  absl::Time opened_;
  std::string reason_;
  RecentTimes ready_times_;
  std::map<std::string, TrainingState> trainers_;
  std::set<std::string> left_out_;
};

// "2 of 3 peers are here; waiting for one more"
std::string WaitingReason(size_t there, size_t needed);

}  // namespace atolld
