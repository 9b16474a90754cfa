#include "worker/base/task_thread.h"

#include <utility>

namespace atolld {

TaskThread::TaskThread() : thread_([this] { Run(); }) {}

TaskThread::~TaskThread() {
  {
    const absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void TaskThread::Start(std::function<void()> task) {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &TaskThread::Idle));
  task_ = std::move(task);
}

void TaskThread::Wait() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &TaskThread::Idle));
}

void TaskThread::Run() {
  while (true) {
    std::function<void()> task;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &TaskThread::Called));
      if (task_ == nullptr) return;
      task = task_;
    }
    task();
    const absl::MutexLock lock(&mutex_);
    task_ = nullptr;
  }
}

}  // namespace atolld
