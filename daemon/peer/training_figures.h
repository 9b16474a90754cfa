// TrainingFigures: the figures that this peer reports about its training. They are the worker's
// newest progress, the time and tokens of all rounds since the daemon was started, and how that
// time divides into training and waiting (work_meter.h).
//
// Pure. Used by one thread.
#pragma once

#include <cstdint>

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

  // Sets the newest round's waits in the Ready of that round's update.
  void Tell(v1::Ready* ready) const { work_.Tell(ready); }
  void Fill(v1::PeerProgress* progress) const;
  uint64_t tokens() const { return tokens_; }

 private:
  v1::WorkerProgress newest_;
  double train_seconds_ = 0;
  uint64_t tokens_ = 0;
  WorkMeter work_;
};

}  // namespace atolld
