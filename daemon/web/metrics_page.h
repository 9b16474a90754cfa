// Serves /metrics, which Prometheus reads, for a coordinator and for a peer's daemon.
//
// The text is made on the server's threads for each request, from data that may be read on any
// thread.
#pragma once

#include <functional>
#include <mutex>

#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/env/env.h"
#include "daemon/env/process_figures.h"
#include "daemon/figures/exposition.h"
#include "daemon/web/http_server.h"

namespace atolld {

// Keeps the newest figures of a peer's daemon, which are taken on its loop once a second. Used on
// the loop thread, except for newest().
class DaemonBoard {
 public:
  static constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

  // `figures` is called on the loop, at once and then every kBetweenLooks.
  DaemonBoard(Executor& executor, std::function<DaemonFigures()> figures);

  DaemonFigures newest() const;  // Thread-safe.

 private:
  void Look();

  Executor& executor_;
  const std::function<DaemonFigures()> figures_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  DaemonFigures newest_;

  CallbackGuard guard_;
};

// `run` returns the status with its newest round and evaluation, and may be called on any thread.
// All arguments must outlive the server.
void ServeRunMetrics(HttpServer& server, std::function<v1::RunStatus()> run,
                     const ProcessSampler& process);
void ServeDaemonMetrics(HttpServer& server, const DaemonBoard& daemon,
                        const ProcessSampler& process);

}  // namespace atolld
