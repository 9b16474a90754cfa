#include "daemon/web/metrics_page.h"

#include <string>
#include <utility>

namespace atolld {
namespace {

constexpr char kMetricsPath[] = "/metrics";
constexpr char kExpositionType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

DaemonBoard::DaemonBoard(Executor& executor, std::function<DaemonFigures()> figures)
    : executor_(executor), figures_(std::move(figures)) {
  Look();
}

DaemonFigures DaemonBoard::newest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return newest_;
}

void DaemonBoard::Look() {
  DaemonFigures figures = figures_();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    newest_ = std::move(figures);
  }
  executor_.RunAfter(kBetweenLooks, guard_.Wrap([this] { Look(); }));
}

void ServeRunMetrics(HttpServer& server, std::function<v1::RunStatus()> run,
                     const ProcessSampler& process) {
  server.AddPage(kMetricsPath, kExpositionType,
                 [run = std::move(run), &process](const HttpRequest&) {
                   return Exposition(run()) + ProcessExposition(process.newest());
                 });
}

void ServeDaemonMetrics(HttpServer& server, const DaemonBoard& daemon,
                        const ProcessSampler& process) {
  server.AddPage(kMetricsPath, kExpositionType, [&daemon, &process](const HttpRequest&) {
    return DaemonExposition(daemon.newest()) + ProcessExposition(process.newest());
  });
}

}  // namespace atolld
