// Coordinator: the process that binds the run's decisions (membership/) to the network, the store
// and the clock.
//
// It listens for the peers' Sessions and the operators' Admin calls on one address. Loop thread,
// but for Start, which may run before the loop does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/config/config.h"
#include "daemon/coordinator/store.h"
#include "daemon/env/env.h"
#include "daemon/identity/authority.h"
#include "daemon/identity/credentials.h"

namespace atolld {

class Coordinator {
 public:
  // What `env` refers to outlives it, and so does `authority`: who signs certificates; null: plain
  // text, where there are none. `history_key`: null: a new run's history is unsigned.
  Coordinator(Env env, const Config& config, std::unique_ptr<Store> store,
              Authority* authority = nullptr, HistoryKeySource history_key = nullptr);
  ~Coordinator();  // Stop

  // Loads the run or begins a new one, makes the new epoch durable, listens. Blocking (the store).
  // FAILED_PRECONDITION: the store holds another run than the config names, or one made with other
  // settings; its history key is not there, or another is; the address is in use, or is not this
  // machine's own while [network] plaintext is on. INVALID_ARGUMENT: the settings make no run.
  // DATA_LOSS: the store's chain of headers is broken.
  absl::Status Start();

  std::string address() const;  // where it listens, with the port that the system chose
  std::string run_id() const;   // after Start
  std::string Doing() const;    // "run books, version 12, training", after Start

  // Calls `task` once the seal is durable, no live peer lacks the last state, and all have left or
  // failure_timeout has passed; and then everybody who watches has been told, or failure_timeout
  // has passed again.
  void OnSealed(Task task);

  // Calls `task` once the run has waited for a peer that others can dial for a quarter of
  // failure_timeout: an aggregator would help.
  void OnUnreachable(Task task);

  // After Start: tells `told` of the run as a WatchRun would, at once and then every interval,
  // whether or not something is new.
  void OnStatus(absl::Duration interval, std::function<void(const v1::RunStatus&)> told);

  // Why the aggregator beside it does not run; empty: it does, or none is wanted. It stands behind
  // the reason of a run that waits.
  void SetAggregatorTrouble(const std::string& trouble);

  // Stops listening and breaks all calls. Peers train on and come back.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atolld
