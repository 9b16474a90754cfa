// Coordinator: the process that connects the run's decisions (membership/) to the network, the
// store and the clock.
//
// It listens for the peers' Sessions and the operators' Admin calls on one address. Used on the
// loop thread, except for Start, which may run before the loop does.
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
  // `authority` signs certificates; if it is null, connections are plain text and there are no
  // certificates. `authority` and everything that `env` refers to must outlive this object. If
  // `history_key` is null, the history of a new run is not signed.
  Coordinator(Env env, const Config& config, std::unique_ptr<Store> store,
              Authority* authority = nullptr, HistoryKeySource history_key = nullptr);
  ~Coordinator();  // calls Stop

  // Loads the run or begins a new one, makes the new epoch durable, and listens. Blocks while the
  // store works. Fails with FAILED_PRECONDITION if the store holds a run other than the config
  // names, or a run made with other settings; if the run's history key is missing or is a different
  // one; if the address is in use; or if [network] plaintext is on and the address is not on
  // loopback. Fails with INVALID_ARGUMENT if the settings make no valid run, and with DATA_LOSS if
  // the store's chain of headers is broken.
  absl::Status Start();

  // The address on which it listens; port 0 is replaced by the port that the system chose.
  std::string address() const;
  std::string run_id() const;  // call it after Start
  std::string Doing() const;   // such as "run books, version 12, training"; call it after Start

  // Calls `task` once, when the run has ended: the seal is durable, no live peer lacks the last
  // state, all peers have left or failure_timeout has passed, and after that all watchers have
  // received the end or failure_timeout has passed again.
  void OnSealed(Task task);

  // Calls `task` once when the run has waited for a quarter of failure_timeout because other peers
  // can dial none of its peers. An aggregator would help.
  void OnUnreachable(Task task);

  // Calls `told` with the run's status as WatchRun would send it, immediately and then at every
  // interval, even if nothing is new. Call it after Start.
  void OnStatus(absl::Duration interval, std::function<void(const v1::RunStatus&)> told);

  // Sets the reason why the aggregator that this coordinator starts does not run; empty if it runs
  // or is not wanted. If the run waits, this text is appended to the reason that the run shows.
  void SetAggregatorTrouble(const std::string& trouble);

  // Stops listening and breaks all calls. Peers keep training, and connect again when a coordinator
  // listens.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atolld
