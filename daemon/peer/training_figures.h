// TrainingFigures: what this peer reports about its training. This is the worker's newest progress,
// the time and tokens of all rounds since the daemon was started, how that time divides into
// training and waiting (work_meter.h), and which tensors do not move (still_tensors.h).
//
// Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/peer/work_meter.h"

namespace atolld {

class TrainingFigures {
 public:
  // In these functions `bytes` is the number of bytes sent and received in exchanges so far.
  void OnTraining(absl::Time now, uint64_t bytes) { work_.OnTraining(now, bytes); }
  void OnProgress(const v1::WorkerProgress& progress);
  void OnBoundary(absl::Time now, uint64_t bytes, const v1::Boundary& boundary);
  void OnCommitted(absl::Time now, uint64_t bytes) { work_.OnCommitted(now, bytes); }
  // Called when the owner stops the worker. The time until the next Boundary then does not count as
  // waiting.
  void OnHeldBack();
  // Sets what PeerProgress.still_tensors says.
  void OnLooked(std::string still_tensors) { still_tensors_ = std::move(still_tensors); }

  // Sets the newest round's waits in the Ready of that round's update.
  void Tell(v1::Ready* ready) const { work_.Tell(ready); }
  void Fill(v1::PeerProgress* progress) const;
  uint64_t tokens() const { return tokens_; }

 private:
  v1::WorkerProgress newest_;
  double train_seconds_ = 0;
  uint64_t tokens_ = 0;
  std::string still_tensors_;
  WorkMeter work_;
};

}  // namespace atolld
