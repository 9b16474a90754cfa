// PartnerWaker: when a peer wakes the connections of its next exchange (daemon/exchange/wake.h).
//
// They are taken to be those that it dialled in the last one. Once in the last half second
// of its training, by the worker's progress; then every two seconds while its update waits for a
// plan, for a minute at most: a run that is paused needs no traffic. It sends little beside what
// the exchange will: a line on which 4 KiB are long carries small vectors. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/wake.h"

namespace atolld {

class PartnerWaker {
 public:
  explicit PartnerWaker(Env env) : env_(env), calls_(env, absl::Seconds(10)) {}

  // `values`: of the vector that is exchanged.
  void OnPlan(const ExchangePlan& plan, uint64_t values, const std::string& self, uint32_t lanes);
  void OnTraining();  // it begins
  void OnProgress(const v1::WorkerProgress& progress);
  void OnWaiting();  // the update is there, or will be at once; any number of times

  void Accept(std::unique_ptr<Call> call) { calls_.Accept(std::move(call)); }  // another's

 private:
  enum class Phase { kTraining, kWaiting, kExchanging };
  void Wake();
  void WakeWhileWaiting();

  const Env env_;
  WakeCalls calls_;

  std::set<std::string> addresses_;  // of the newest plan
  size_t bytes_ = 0;                 // to each
  uint32_t lanes_ = 1;
  Phase phase_ = Phase::kExchanging;
  absl::Time began_;  // training
  absl::Time woken_ = absl::InfinitePast();
  int waited_ = 0;  // times
  Executor::TimerId timer_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
