#include "daemon/cli/run_watcher.h"

#include <chrono>
#include <utility>

#include "absl/time/time.h"
#include "daemon/transport/admin_client.h"

namespace atolld {
namespace {

// Often enough for a view that moves, seldom enough to cost nothing.
constexpr absl::Duration kInterval = absl::Milliseconds(250);
constexpr auto kRedial = std::chrono::milliseconds(300);

}  // namespace

RunWatcher::RunWatcher(std::string address, Waker& waker)
    : address_(std::move(address)), waker_(waker), thread_([this] { Watch(); }) {}

RunWatcher::~RunWatcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

std::vector<v1::RunStatus> RunWatcher::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace atolld
