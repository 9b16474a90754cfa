#include "daemon/peer/worker_watch.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// In units of failure_timeout, with minima: even if failure_timeout is short, a first step may
// compile its kernels, and a start may read all of the data.
constexpr int64_t kUnmeasured = 60;
constexpr absl::Duration kLeastUnmeasured = absl::Minutes(1);
constexpr int64_t kStart = 180;
constexpr absl::Duration kLeastStart = absl::Minutes(5);

// A silence eight times as long as any before is not a step; but between two rounds a worker may
// save its optimiser's state.
constexpr int64_t kTimesLongest = 8;
constexpr int64_t kSlack = 12;
constexpr int kMostDoublings = 5;

}  // namespace

WorkerWatch::WorkerWatch(Env env, Worker& worker, absl::Duration failure_timeout)
    : env_(env), worker_(worker), failure_timeout_(failure_timeout) {}

void WorkerWatch::Start(const v1::RunSpec& spec, Events events) {
  events_ = std::move(events);
  Events heard;
  heard.on_configured = guard_.Wrap([this](const v1::WorkerConfigured& configured) {
    starting_ = false;
    Live(false);
    events_.on_configured(configured);
  });
  heard.on_message = guard_.Wrap([this](const v1::WorkerMessage& message) {
    OnMessage(message);
    events_.on_message(message);
  });
  heard.on_lost = guard_.Wrap([this](const absl::Status& why) {
    Begin();
    events_.on_lost(why);
  });
  Begin();
  worker_.Start(spec, std::move(heard));
}

// Called when another worker is started, which knows nothing of the previous worker's tasks.
void WorkerWatch::Begin() {
  initial_state_ = training_ = false;
  shares_ = 0;
  starting_ = worker_.trains();
  last_life_ = env_.executor.Now();
  Watch();
}

// Called when there must be no worker, so that silence does not count.
void WorkerWatch::Pause() {
  worker_.Pause();
  starting_ = initial_state_ = training_ = false;
  shares_ = 0;
}

void WorkerWatch::Resume() {
  Begin();
  worker_.Resume();
}

void WorkerWatch::Renew(const v1::RunSpec& spec, const std::string& misfit) {
  worker_.Renew(spec, misfit);
}

void WorkerWatch::Send(const v1::DaemonMessage& message) {
  const bool was_idle = work() == kIdle;
  switch (message.message_case()) {
    case v1::DaemonMessage::kWriteInitialState:
      initial_state_ = true;
      break;
    case v1::DaemonMessage::kTrain:
      training_ = true;
      trained_ = message.train().version();
      break;
    case v1::DaemonMessage::kEvaluate:
      ++shares_;
      evaluated_ = message.evaluate().version();
      break;
    default:
      break;
  }
  if (was_idle && work() != kIdle) last_life_ = env_.executor.Now();
  worker_.Send(message);
  Watch();
}

void WorkerWatch::OnMessage(const v1::WorkerMessage& message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kInitialStateWritten:
      Live(true);
      initial_state_ = false;
      ended_ = 0;
      return;
    case v1::WorkerMessage::kBoundary:
      Live(shares_ == 0);
      training_ = false;
      ended_ = 0;
      return;
    case v1::WorkerMessage::kEvaluated:
      Live(true);
      if (shares_ > 0) --shares_;
      ended_ = 0;
      return;
    case v1::WorkerMessage::kProgress:
      // Before the first step is done, the duration of a step is unknown.
      return Live(message.progress().evaluated() > 0 ||
                  (message.progress().step() > 0 && shares_ == 0));
    default:
      return Live(false);
  }
}

void WorkerWatch::Live(bool measured) {
  const absl::Time now = env_.executor.Now();
  const Work done = work();
  if (measured && done != kIdle) {
    std::optional<absl::Duration>& longest = longest_[done];
    longest = std::max(longest.value_or(absl::ZeroDuration()), now - last_life_);
  }
  last_life_ = now;
}

WorkerWatch::Work WorkerWatch::work() const {
  if (starting_) return kStarting;
  if (shares_ > 0) return kEvaluation;
  if (initial_state_) return kInitialState;
  return training_ ? kTraining : kIdle;
}

absl::Duration WorkerWatch::Patience() const {
  const Work now = work();
  const int64_t times = int64_t{1} << std::min(ended_, kMostDoublings);
  if (now == kStarting) return times * std::max(kStart * failure_timeout_, kLeastStart);
  if (!longest_[now]) return times * std::max(kUnmeasured * failure_timeout_, kLeastUnmeasured);
  return absl::Ceil(times * (kTimesLongest * *longest_[now] + kSlack * failure_timeout_),
                    absl::Milliseconds(100));
}

void WorkerWatch::Watch() {
  if (looking_ || stopped_ || work() == kIdle) return;
  looking_ = true;
  looked_ = env_.executor.Now();
  env_.executor.RunAfter(failure_timeout_ / 2, guard_.Wrap([this] { Look(); }));
}

void WorkerWatch::Look() {
  looking_ = false;
  const Work now = work();
  if (stopped_ || now == kIdle) return;
  const absl::Duration gap = env_.executor.Now() - looked_;
  if (gap > failure_timeout_) last_life_ += gap;  // this process was stopped as well
  const absl::Duration patience = Patience();
  if (env_.executor.Now() >= last_life_ + patience) {
    ++ended_;
    last_life_ = env_.executor.Now();
    worker_.Restart(absl::DeadlineExceededError(absl::StrCat(
        "no sign of life for ", absl::FormatDuration(patience), " while it ", Words(now))));
  }
  Watch();
}

std::string WorkerWatch::Words(Work work) const {
  switch (work) {
    case kStarting:
      return "starts";
    case kInitialState:
      return "makes version 0";
    case kEvaluation:
      return absl::StrCat("evaluates version ", evaluated_);
    case kTraining:
      return absl::StrCat("trains version ", trained_);
    case kIdle:
      break;
  }
  return "is idle";
}

void WorkerWatch::Stop(Task done) {
  stopped_ = true;
  worker_.Stop(std::move(done));
}

}  // namespace atolld
