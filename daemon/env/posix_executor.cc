#include "daemon/env/posix_executor.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/time/clock.h"
#include "compression/base/check.h"
#include "daemon/env/float_mode.h"

namespace atolld {
namespace {

// Longer waits are cut to this: the steady clock's own range ends after about 292 years, and an
// infinite delay must not overflow it.
constexpr absl::Duration kLongestDelay = absl::Hours(24 * 365 * 10);

}  // namespace

PosixExecutor::PosixExecutor(Options options) {
  CHECK(options.threads >= 1);
  pool_.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) {
    pool_.emplace_back([this, nice = options.nice] { PoolThread(nice); });
  }
}

PosixExecutor::~PosixExecutor() {
  std::deque<Job> dropped_jobs;
  {
    const std::lock_guard<std::mutex> lock(pool_mutex_);
    closing_ = true;
    dropped_jobs.swap(jobs_);
  }
  pool_wakes_.notify_all();
  for (std::thread& thread : pool_) thread.join();

  // What a dropped task owns may post while it is destroyed: never destroy one under the lock.
  for (;;) {
    std::deque<Task> dropped;
    {
      const std::lock_guard<std::mutex> lock(loop_mutex_);
      dropped.swap(posted_);
    }
    if (dropped.empty()) break;
  }
  std::deque<Task>().swap(ready_);
  due_.clear();
  auto timers = std::move(timers_);
}

void PosixExecutor::Run() {
  bool holds = false;
  RunLoop(nullptr, Clock::time_point::max(), &holds);
}

void PosixExecutor::Stop() {
  {
    const std::lock_guard<std::mutex> lock(loop_mutex_);
    stop_ = true;
  }
  loop_wakes_.notify_one();
}

bool PosixExecutor::RunUntil(const std::function<bool()>& condition, absl::Duration limit) {
  bool holds = false;
  const absl::Duration wait = std::clamp(limit, absl::ZeroDuration(), kLongestDelay);
  RunLoop(&condition, Clock::now() + absl::ToChronoNanoseconds(wait), &holds);
  return holds;
}

void PosixExecutor::RunLoop(const std::function<bool()>* condition, Clock::time_point limit,
                            bool* holds) {
  {
    const std::lock_guard<std::mutex> lock(loop_mutex_);
    CHECK(loop_thread_ == std::thread::id());  // one loop at a time
    loop_thread_ = std::this_thread::get_id();
  }
  for (;;) {
    if (condition != nullptr && (*condition)()) {
      *holds = true;
      break;
    }
    {
      const std::lock_guard<std::mutex> lock(loop_mutex_);
      if (stop_) {
        stop_ = false;
        break;
      }
    }
    if (condition != nullptr && Clock::now() >= limit) break;
    if (ready_.empty()) {
      // Posted tasks come in one batch, then the timers that are due: neither can starve the other.
      Wait(limit);
      MoveDueTimers();
      continue;
    }
    const Task task = std::move(ready_.front());
    ready_.pop_front();
    task();
  }
  const std::lock_guard<std::mutex> lock(loop_mutex_);
  loop_thread_ = std::thread::id();
}

void PosixExecutor::MoveDueTimers() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    // A due timer stays cancellable until it runs, so `ready_` gets a ticket, not the task.
    const auto key = timers_.begin()->first;
    auto task = std::make_shared<Task>(std::move(timers_.begin()->second));
    timers_.erase(timers_.begin());
    ready_.push_back([this, id = key.second, task] {
      if (due_.erase(id) == 1) (*task)();
    });
  }
}

// Takes what was posted, or waits for a post, a timer, Stop or `limit`.
void PosixExecutor::Wait(Clock::time_point limit) {
  if (!timers_.empty()) limit = std::min(limit, timers_.begin()->first.first);
  std::unique_lock<std::mutex> lock(loop_mutex_);
  const auto wakes = [this] { return !posted_.empty() || stop_; };
  if (limit == Clock::time_point::max()) {
    loop_wakes_.wait(lock, wakes);
  } else {
    loop_wakes_.wait_until(lock, limit, wakes);
  }
  ready_.swap(posted_);
}

absl::Time PosixExecutor::Now() const {
  return absl::UnixEpoch() + absl::FromChrono(Clock::now().time_since_epoch());
}

absl::Time PosixExecutor::WallTime() const { return absl::Now(); }

void PosixExecutor::Post(Task task) {
  {
    const std::lock_guard<std::mutex> lock(loop_mutex_);
    posted_.push_back(std::move(task));
  }
  loop_wakes_.notify_one();
}

Executor::TimerId PosixExecutor::RunAfter(absl::Duration delay, Task task) {
  CheckOnLoop();
  const absl::Duration wait = std::clamp(delay, absl::ZeroDuration(), kLongestDelay);
  const TimerId id = next_timer_++;
  const Clock::time_point due = Clock::now() + absl::ToChronoNanoseconds(wait);
  timers_.emplace(std::make_pair(due, id), std::move(task));
  due_.emplace(id, due);
  return id;
}

void PosixExecutor::Cancel(TimerId timer) {
  CheckOnLoop();
  const auto found = due_.find(timer);
  if (found == due_.end()) return;
  const auto key = std::make_pair(found->second, timer);
  due_.erase(found);
  const auto waiting = timers_.find(key);
  if (waiting == timers_.end()) return;
  const Task dropped = std::move(waiting->second);
  timers_.erase(waiting);
}

void PosixExecutor::Offload(Task work, Task done) {
  CheckOnLoop();
  {
    const std::lock_guard<std::mutex> lock(pool_mutex_);
    jobs_.push_back({std::move(work), std::move(done)});
  }
  pool_wakes_.notify_one();
}

uint64_t PosixExecutor::Random() {
  uint64_t number = 0;
  CHECK(getrandom(&number, sizeof(number), 0) == sizeof(number));
  return number;
}

void PosixExecutor::CheckOnLoop() const {
  const std::lock_guard<std::mutex> lock(loop_mutex_);
  CHECK(loop_thread_ == std::thread::id() || loop_thread_ == std::this_thread::get_id());
}

void PosixExecutor::PoolThread(int nice) {
  if (nice != 0) {
    // Linux keeps a nice value for each thread; a refusal (a negative one without the right) is
    // harmless.
    const int before = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), before + nice);
  }
  for (;;) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(pool_mutex_);
      pool_wakes_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    SetDefaultFloatMode();
    CHECK(FloatModeIsDefault());
    job.work();
    CHECK(FloatModeIsDefault());
    // `work` goes back too: what it owns must not be destroyed off the loop.
    Post([job = std::move(job)] { job.done(); });
  }
}

}  // namespace atolld
