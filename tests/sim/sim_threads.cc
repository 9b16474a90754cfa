#include "tests/sim/sim_threads.h"

#include <algorithm>
#include <utility>

#include "compression/base/check.h"

namespace atolld {

class SimThreads::Job {
 public:
  Job(Task work, bool owned) : work_(std::move(work)), owned_(owned) {}

  ~Job() {
    if (thread_.joinable()) thread_.join();
  }

  // The world's: until the thread waits or has ended.
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    running_ = true;
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { Work(); });
    } else {
      turn_.notify_all();
    }
    turn_.wait(lock, [this] { return !running_; });
  }

  // The thread's own: until the next Run.
  void Yield() {
    std::unique_lock<std::mutex> lock(mutex_);
    running_ = false;
    turn_.notify_all();
    turn_.wait(lock, [this] { return running_; });
  }

  bool ended() const { return ended_; }
  bool owned() const { return owned_; }
  void Forget() { work_ = nullptr; }

  // Of the world, and of the thread while it runs.
  bool parked = true;  // it waits, at first for its beginning
  bool begun = false;
  SimEventQueue::Id timer = 0;
  std::shared_ptr<Job> joiner;

 private:
  void Work() {
    work_();
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    running_ = false;
    turn_.notify_all();
  }

  Task work_;
  const bool owned_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable turn_;
  bool running_ = false;
  bool ended_ = false;
};

SimThreads::~SimThreads() { CHECK(jobs_.empty()); }

std::shared_ptr<SimThreads::Job> SimThreads::Start(Task work, bool owned) {
  auto job = std::make_shared<Job>(std::move(work), owned);
  if (!dead_) jobs_.push_back(job);
  job->timer = events_.Schedule(absl::ZeroDuration(), owner_, [this, job] { Resume(job); });
  return job;
}

void SimThreads::Resume(const std::shared_ptr<Job>& job) {
  if (!job->parked || job->ended()) return;
  const std::shared_ptr<Job> before = current_;
  CHECK(before == nullptr || dead_);
  events_.Cancel(job->timer);
  job->parked = false;
  job->begun = true;
  current_ = job;
  job->Run();
  current_ = before;
  if (job->ended()) Remove(job);
}

void SimThreads::Remove(const std::shared_ptr<Job>& job) {
  job->Forget();
  jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
  if (job->joiner != nullptr) Wake(job->joiner);
}

void SimThreads::Park(absl::Duration wait) {
  CHECK(current_ != nullptr);
  if (dead_) return;
  const std::shared_ptr<Job> job = current_;
  job->parked = true;
  job->timer = events_.Schedule(wait, owner_, [this, job] { Resume(job); });
  job->Yield();
}

void SimThreads::Wake(const std::shared_ptr<Job>& job) {
  if (!job->parked || !job->begun || dead_) return;
  events_.Cancel(job->timer);
  job->timer = events_.Schedule(absl::ZeroDuration(), owner_, [this, job] { Resume(job); });
}

void SimThreads::Join(const std::shared_ptr<Job>& job) {
  while (!job->ended() && !dead_) {
    job->joiner = current_;
    Park(absl::InfiniteDuration());
  }
  if (job->ended()) return;
  if (job->begun) return Resume(job);  // it never waits again
  Remove(job);
}

void SimThreads::JoinPool() {
  const auto other = [this](const std::shared_ptr<Job>& job) {
    return !job->owned() && job->begun && job != current_;
  };
  for (auto job = std::find_if(jobs_.begin(), jobs_.end(), other); job != jobs_.end();
       job = std::find_if(jobs_.begin(), jobs_.end(), other)) {
    Join(std::shared_ptr<Job>(*job));
  }
}

// The newest first, because an older one may wait for it.
void SimThreads::EndAll() {
  CHECK(dead_ && current_ == nullptr);
  const std::vector<std::shared_ptr<Job>> all(jobs_.rbegin(), jobs_.rend());
  for (const std::shared_ptr<Job>& job : all) {
    if (!job->owned()) Join(job);
  }
}

}  // namespace atolld
