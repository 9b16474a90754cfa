// Learner: the interface of everything that learns parameters in inner steps. A session drives it.
// It may be a model with its data, or a stub whose steps only take time.
//
// The session does what worker.proto says about messages, slots, merges and time. A learner does
// the parts that depend on the model: the steps, their losses, and evaluations. It uses the slots
// only during a call that gets them. Any error ends the worker, and its message is sent to the
// daemon. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"
#include "worker/base/link.h"

namespace atolld {

// The clock and the log of a worker; a test brings its own.
struct WorkerEnv {
  std::function<absl::Time()> now = absl::Now;
  std::function<void(const std::string&)> log;  // Takes one line without a newline. May be empty.

  void Log(const std::string& line) const {
    if (log) log(line);
  }
  // Logs an error that does not end the worker; does nothing if `status` is OK.
  void Warn(const absl::Status& status) const {
    if (!status.ok()) Log(absl::StrCat("warning: ", status.message()));
  }
};

// What the steps of a training add up to so far.
struct StepsDone {
  uint32_t steps = 0;
  uint64_t samples = 0;
  uint64_t tokens = 0;  // The number of targets in these samples that count.
  double loss = 0;      // The mean over the steps; 0 before the first one.
  double first_loss = 0;
  // How long the training must have lasted before it is worth calling TrainOn again.
  absl::Duration next;
};

class Learner {
 public:
  virtual ~Learner() = default;

  // Returns what the worker reports of itself, for example "atoll-worker 0.1.0, libtorch 1.13.1".
  virtual std::string software() const = 0;

  // Opens what the run trains with, and returns the answer to Configure. It may be called again,
  // and then forgets everything that it was told before. Called before any other function below.
  virtual absl::StatusOr<v1::WorkerConfigured> Configure(const v1::Configure& configure) = 0;

  // Sets `parameters` to the initial parameters of the run.
  virtual absl::Status Initialise(absl::Span<float> parameters) = 0;

  // Prepares the training that is asked for, which replaces any earlier one. Returns how many steps
  // it has, which may differ from train.steps(). The session has checked that train.frozen() are
  // whole tensors of the manifest, and keeps parameters() at the base there; a learner that writes
  // its update itself makes it 0 there. The learner must not move frozen values, and should hold
  // neither gradient nor optimiser's state of them.
  virtual absl::StatusOr<uint32_t> Begin(const v1::TrainSteps& train, const Slots& slots) = 0;

  // The worker's own parameters, which the session sets at the start of a training and moves later.
  // Valid from Begin on. Empty if this learner keeps none in this run and writes its update itself.
  virtual absl::Span<float> parameters() = 0;
  // Called after the session has changed parameters(), and the base to which they belong.
  virtual absl::Status Moved(absl::Span<const float> /*base*/) { return absl::OkStatus(); }

  // Does the part of the preparation whose time is part of the training. Follows Begin. `from` is
  // the slot from which the training starts; it is empty if the training goes on from parameters().
  virtual absl::Status Start(absl::Span<const float> /*from*/, const Slots& /*slots*/) {
    return absl::OkStatus();
  }

  // Trains on, for at most about one inner step of computing, and never beyond step number `most`
  // of the training. `lasted` says how long the training has lasted without evaluations and waits.
  virtual absl::StatusOr<StepsDone> TrainOn(absl::Duration lasted, uint32_t most) = 0;

  // Brings parameters() to the state after the steps that TrainOn has reported. Called before the
  // session reads or moves them, and before a training is given up.
  virtual absl::Status CatchUp(const Slots& slots) = 0;

  // Ends the training, whose update is in its slot: keeps what the next training needs.
  virtual void Finish(const Slots& /*slots*/) {}

  // Called after the daemon was told that the training has ended.
  virtual void AfterBoundary() {}
  // Called when the daemon says Stop, after which the session ends.
  virtual void Stop() {}

  // Evaluates theta as the message says. Sets the sum of the losses, the number of tokens, and the
  // losses of the worker's own parties if they are asked for. Calls `stop` between batches; if it
  // returns true, this fails with CANCELLED.
  virtual absl::Status Evaluate(const v1::EvaluateShare& evaluate, const Slots& slots,
                                const std::function<bool()>& stop,
                                v1::WorkerEvaluated* evaluated) = 0;
};

}  // namespace atolld
