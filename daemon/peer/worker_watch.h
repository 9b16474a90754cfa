// WorkerWatch: ends a worker that hangs, so that another one is started.
//
// A worker that was asked for something says now and then that it lives: steps that are done,
// windows that are evaluated, the answer. One that says nothing for far longer than it ever has is
// ended, as any that dies. How long, in order of what is known:
//
//   8 x the longest silence of this work so far + 12 x failure_timeout    once it was measured
//   60 x failure_timeout, at least a minute                               until then
//   180 x failure_timeout, at least five minutes           from its start until it is configured
//
// and twice as long, up to 32 times, each time that one was ended for it in a row: who is only slow
// gets there. A daemon that was stopped itself blames nobody for that time. Every other word goes
// through unchanged. Loop thread.
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
  // `worker` outlives it.
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

  // What it was asked and has not answered.
  bool starting_ = false;
  bool initial_state_ = false;
  bool training_ = false;
  uint32_t shares_ = 0;  // of evaluations

  uint64_t trained_ = 0, evaluated_ = 0;  // the newest versions of these

  absl::Time last_life_;
  std::array<std::optional<absl::Duration>, kWorks> longest_;  // silence, where it was measured
  int ended_ = 0;                                              // in a row, for their silence
  bool looking_ = false;
  absl::Time looked_;
  bool stopped_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
