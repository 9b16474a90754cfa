// AggregatorProcess: the aggregator that a coordinator starts beside itself, an `atolld peer` of
// its own.
//
// One that dies is started again after a pause that doubles while it keeps dying young, and its
// last words are told, since they are what the run waits for; one that ends well (the run is
// sealed, it was drained) is not. It does not outlive this process. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"
#include "daemon/env/process_events.h"
#include "daemon/identity/authority.h"

namespace atolld {

// The peer's config, out of its coordinator's: the folder "aggregator" in coordinator.dir, an
// address beside the coordinator's. INVALID_ARGUMENT: the coordinator's address has no next port,
// and [coordinator] aggregator_address does not say another.
absl::StatusOr<Config> AggregatorConfig(const Config& coordinator);

class AggregatorProcess {
 public:
  // Why it does not run, in one line; empty: it does.
  using OnTrouble = std::function<void(const std::string& why)>;

  // `program`: atolld. `authority` signs its identity; null: plain text. Both outlive it.
  AggregatorProcess(Env env, std::string program, const Config& coordinator,
                    Authority* authority = nullptr, OnTrouble on_trouble = nullptr);
  ~AggregatorProcess();

  // Once. An error is logged and told: the run goes on waiting, and says for what.
  void Start();

 private:
  absl::Status WriteConfig(const Config& config) const;
  absl::Status WriteIdentity(const Config& config) const;
  void Launch();
  void OnExit(ExitStatus status);
  void Trouble(const std::string& why) const;

  const Env env_;
  const std::string program_;
  const Config coordinator_;
  Authority* const authority_;
  std::string config_path_;
  const OnTrouble on_trouble_;
  std::unique_ptr<ChildProcess> process_;
  std::string last_line_;  // that it has written
  absl::Time launched_;
  int young_deaths_ = 0;  // in a row
  int launches_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
