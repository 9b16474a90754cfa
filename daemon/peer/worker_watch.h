// WorkerWatch: ends a worker that hangs, so that another one is started.
//
// A worker that has a task reports from time to time the steps that it has done or the windows that
// it has evaluated, and in the end the answer. A worker that is silent for far longer than ever
// before is ended and treated like a worker that has died. The allowed silence depends on what was
// measured:
//
//   8 x the longest silence of this work so far + 12 x failure_timeout    once it was measured
//   60 x failure_timeout, at least a minute                               until then
//   180 x failure_timeout, at least five minutes           from its start until it is configured
//
// The allowed silence doubles, up to 32-fold, with each worker in a row that was ended for its
// silence, so that a worker that is only slow gets enough time in the end. Time in which the daemon
// itself was stopped does not count as silence. All messages are passed on unchanged. Used on the
// loop thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/peer/worker.h"

namespace atolld {

class WorkerWatch final : public Worker {
 public:
  // `worker` must outlive this object.
  WorkerWatch(Env env, Worker& worker, absl::Duration failure_timeout);

  void SetFailureTimeout(absl::Duration failure_timeout) { failure_timeout_ = failure_timeout; }

  void SetPlaces(const RunFilePlaces& places) override { worker_.SetPlaces(places); }
  void Start(const v1::RunSpec& spec, Events events) override;
  void Renew(const v1::RunSpec& spec, const std::string& misfit) override;
  void Send(const v1::DaemonMessage& message) override;
  void Accept() override { worker_.Accept(); }
  void Restart(const absl::Status& why) override { worker_.Restart(why); }
  void Pause() override;
  void Resume() override;
  void SetThreads(uint32_t threads) override { worker_.SetThreads(threads); }
  void Stop(Task done) override;
  bool trains() const override { return worker_.trains(); }

 private:
  enum Work { kStarting, kInitialState, kEvaluation, kTraining, kIdle };
  static constexpr size_t kWorks = kIdle;

  Work work() const;
  absl::Duration Patience() const;
  void Begin();
  void OnMessage(const v1::WorkerMessage& message);
  void Live(bool measured);
  void Watch();
  void Look();
  std::string Words(Work work) const;

  const Env env_;
  Worker& worker_;
  Events events_;
  absl::Duration failure_timeout_;

  // The tasks that the worker has not answered yet.
  bool starting_ = false;
  bool initial_state_ = false;
  bool training_ = false;
  uint32_t shares_ = 0;  // The number of shares of evaluations.

  // The versions of the newest training and of the newest evaluation.
  uint64_t trained_ = 0, evaluated_ = 0;

  absl::Time last_life_;
  // The longest measured silence in each kind of work; nullopt if none was measured.
  std::array<std::optional<absl::Duration>, kWorks> longest_;
  int ended_ = 0;  // The number of workers in a row that were ended because of their silence.
  bool looking_ = false;
  absl::Time looked_;
  bool stopped_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
