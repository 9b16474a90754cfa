#include "daemon/cli/run_watcher.h"

#include <chrono>
#include <utility>

#include "absl/time/time.h"

namespace atolld {
namespace {

// Often enough for a view that moves, seldom enough to cost nothing.
constexpr absl::Duration kInterval = absl::Milliseconds(250);
constexpr auto kRedial = std::chrono::milliseconds(300);

}  // namespace

RunWatcher::RunWatcher(CoordinatorAccess access, Waker& waker)
    : access_(std::move(access)), waker_(waker), thread_([this] { Watch(); }) {}

RunWatcher::~RunWatcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    if (asking_ != nullptr) asking_->Cancel();
  }
  stopped_.notify_all();
  thread_.join();
}

void RunWatcher::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    // A new one each time: one that has found nobody waits for seconds before it looks again.
    AdminClient client(access_);
    asking_ = &client;
    lock.unlock();
    // However it ends: the coordinator is away, and comes back or not; who owns the run knows
    // better.
    client
        .WatchRun(kInterval,
                  [this](const v1::RunStatus& status) {
                    const std::lock_guard<std::mutex> guard(mutex_);
                    waiting_.push_back(status);
                    away_ = false;
                    waker_.Wake();
                    return !stop_;
                  })
        .IgnoreError();
    lock.lock();
    asking_ = nullptr;
    away_ = true;
    stopped_.wait_for(lock, kRedial, [this] { return stop_; });
  }
}

std::vector<v1::RunStatus> RunWatcher::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(waiting_, {});
}

bool RunWatcher::away() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return away_;
}

}  // namespace atolld
