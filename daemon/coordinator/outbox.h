// Outbox: makes each of the run's outputs durable, then lets it take effect, strictly in order.
//
// Law: nothing of an output reaches a peer before its update is durable, and no later output
// overtakes an earlier one. A full disk holds everything back, and is tried again every second; any
// other failure of the store ends the process: what was promised could no longer be kept. Loop
// thread; the store runs on the pool.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/coordinator/store.h"
#include "daemon/env/env.h"
#include "membership/run/run.h"

namespace atolld {

class Outbox {
 public:
  using Deliver = std::function<void(const RunOutput&)>;

  Outbox(Env env, std::shared_ptr<Store> store, Deliver deliver);

  // Never delivers from inside the call if there is something to store. `done` runs right after the
  // output has taken effect.
  void Push(RunOutput output, Task done = nullptr);

  // Runs `work` on the pool between two updates, so that it may use the store, then `done` on the
  // loop.
  void WithStore(Task work, Task done) { queue_.Run(std::move(work), std::move(done)); }

  // Why nothing takes effect at present; empty while all is well.
  const std::string& stalled() const { return stalled_; }

 private:
  struct Item {
    RunOutput output;
    Task done;
    bool durable = false;
  };

  void Pump();
  void Persist();
  void OnPersisted(const absl::Status& status);

  Env env_;
  const std::shared_ptr<Store> store_;
  const Deliver deliver_;
  SerialQueue queue_;
  std::deque<Item> items_;
  bool storing_ = false;
  bool pumping_ = false;
  std::string stalled_;
  CallbackGuard guard_;
};

}  // namespace atolld
