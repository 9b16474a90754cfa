// /metrics, which Prometheus reads: of a coordinator, and of a peer's daemon.
//
// Texts are made by the server's threads, and only when they are asked for; what they show is kept
// where any thread may read it.
#pragma once

#include <functional>
#include <mutex>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/cli/exposition.h"
#include "daemon/env/env.h"
#include "daemon/env/process_figures.h"
#include "daemon/web/http_server.h"

namespace atolld {

// What a peer's loop last said of the daemon, once a second. Loop thread, but for newest().
class DaemonBoard {
 public:
  static constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

  // `figures` is asked on the loop, at once and then again and again.
  DaemonBoard(Executor& executor, std::function<DaemonFigures()> figures);

  DaemonFigures newest() const;  // any thread

 private:
  void Look();

  Executor& executor_;
  const std::function<DaemonFigures()> figures_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  DaemonFigures newest_;

  CallbackGuard guard_;
};

// `run`: the status with its newest round and evaluation; any thread calls it. What is named here
// outlives the server.
void ServeRunMetrics(HttpServer& server, std::function<v1::RunStatus()> run,
                     const ProcessSampler& process);
void ServeDaemonMetrics(HttpServer& server, const DaemonBoard& daemon,
                        const ProcessSampler& process);

}  // namespace atolld
