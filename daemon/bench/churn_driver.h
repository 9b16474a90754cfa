// ChurnDriver: what RunUnderChurn does, step by step.
//
//   starting --all peers in a commit--> measuring --time is over, or sealed--> healing --> over
//
// One thread, once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/bench/churn_cluster.h"
#include "daemon/bench/churn_run.h"
#include "daemon/cli/run_history.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/cli/signals.h"

namespace atolld {

class ChurnDriver {
 public:
  ChurnDriver(Files& files, SignalWaiter& signals, const ChurnRunSettings& settings);

  absl::Status Run();
  ChurnRunResult Result();  // after Run; replays every replica's log

 private:
  enum class Stage { kStarting, kMeasuring, kHealing, kOver };

  absl::Status Step(absl::Time now);
  void TakeNews(absl::Time now);
  absl::Status StepStarting(absl::Time now);
  absl::Status StepMeasuring(absl::Time now);
  absl::Status StepHealing(absl::Time now);
  absl::Status StepFault(absl::Time now);
  void BeginFault(absl::Time now);
  void NoteStake(LandedFault* fault, absl::Time now) const;
  bool MayStrike() const;
  absl::Status UndoFault(absl::Time now);
  bool VictimIsBack() const;
  bool AllLive() const;
  bool AllAtOneVersion() const;
  void NoteMemory();
  bool sealed_run() const { return !settings_.length.has_value(); }
  void Say(const std::string& line) const;
  void CheckDigests(ChurnRunResult* result) const;

  Files& files_;
  SignalWaiter& signals_;
  const ChurnRunSettings& settings_;
  const uint32_t quorum_;
  Waker waker_;
  std::unique_ptr<ChurnCluster> cluster_;
  std::unique_ptr<RunWatcher> watcher_;  // after waker_ and cluster_

  Stage stage_ = Stage::kStarting;
  absl::Time started_, began_, ended_, healing_since_;
  bool peers_started_ = false;
  RunHistory history_;
  absl::Time last_news_ = absl::InfinitePast();
  std::map<std::string, absl::Time> progress_since_;  // when a peer's progress was last new
  // State digests by version and peer, as peers have told them.
  std::map<uint64_t, std::map<std::string, std::string>> digests_;
  std::string differing_;
  MeanOverTime live_;
  absl::Time said_ = absl::InfinitePast();

  // The fault under way.
  size_t next_fault_ = 0;
  bool landed_ = false;
  bool undone_ = false;
  absl::Time struck_at_;
  uint64_t version_then_ = 0;
  uint64_t rounds_then_ = 0;  // that the victim had contributed to
  absl::Time undone_at_;
  std::optional<LandedFault> fault_;

  std::vector<LandedFault> landed_faults_;
  std::vector<std::string> unexpected_, not_back_;
  bool memory_noted_ = false;
  std::map<size_t, std::pair<pid_t, uint64_t>> memory_;  // by peer: daemon, bytes after warm-up
  std::optional<double> rss_growth_;
};

}  // namespace atolld
