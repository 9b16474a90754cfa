// AggregatorProcess: the aggregator that a coordinator starts beside itself, a process of its own
// that runs `atolld peer`.
//
// An aggregator that dies is started again after a pause, which doubles as long as it dies soon
// after each start. Its last line of output is reported as the reason why the run waits. An
// aggregator that exits with code 0, because the run is sealed or the aggregator was drained, is
// not started again. The aggregator does not outlive this process. Used on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/env/child_process.h"
#include "daemon/env/env.h"
#include "daemon/identity/authority.h"

namespace atolld {

// Returns the config of the aggregator, made from the coordinator's config. Its folder is
// "aggregator" in coordinator.dir, and its address is the coordinator's with the next port, unless
// [coordinator] aggregator_address is set. Fails with INVALID_ARGUMENT if there is no next port and
// aggregator_address is not set.
absl::StatusOr<Config> AggregatorConfig(const Config& coordinator);

class AggregatorProcess {
 public:
  // Called with the reason why the aggregator does not run, in one line, or with an empty text if
  // it runs.
  using OnTrouble = std::function<void(const std::string& why)>;

  // `program` is the path of atolld. `authority` signs the aggregator's identity; if it is null,
  // connections are plain text. `env` and `authority` must outlive this object.
  AggregatorProcess(Env env, std::string program, const Config& coordinator,
                    Authority* authority = nullptr, OnTrouble on_trouble = nullptr);
  ~AggregatorProcess();

  // Call it once. An error is logged and passed to `on_trouble`; the run then keeps waiting and
  // shows the reason.
  void Start();

 private:
  absl::Status WriteConfig(const Config& config) const;
  absl::Status WriteIdentity(const Config& config) const;
  void Launch();
  void OnExit(const ExitStatus& status);
  void Trouble(const std::string& why) const;

  const Env env_;
  const std::string program_;
  const Config coordinator_;
  Authority* const authority_;
  std::string config_path_;
  const OnTrouble on_trouble_;
  std::unique_ptr<ChildProcess> process_;
  absl::Time launched_;
  RestartPause pause_;
  int launches_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
