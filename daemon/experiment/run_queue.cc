#include "daemon/experiment/run_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/words.h"

namespace atolld {

// Below this share of the work the pace is not known.
constexpr double kLeastShare = 0.005;

std::string NameOf(const QueuedRun& run) { return absl::StrCat(run.setting, ", seed ", run.seed); }

RunQueue::RunQueue(std::vector<QueuedRun> runs, size_t jobs, RunLauncher& launcher)
    : runs_(std::move(runs)), jobs_(jobs), launcher_(launcher), states_(runs_.size()) {
  CHECK(jobs_ > 0);
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (launcher_.Finished(i)) states_[i].state = State::kFinished;
  }
}

void RunQueue::Settle(size_t run, const LaunchEnd& end, std::vector<std::string>* lines) {
  RunState& state = states_[run];
  if (end.finished) {
    state.state = State::kFinished;
    lines->push_back(absl::StrCat(NameOf(runs_[run]), ": finished; ", Count(State::kFinished),
                                  " of ", Counted(runs_.size(), "run")));
    return;
  }
  state.why = end.why;
  // One that was asked to end is for the next time.
  state.state = stopping_ ? State::kWaiting : State::kBroken;
  if (!stopping_) lines->push_back(absl::StrCat(NameOf(runs_[run]), ": failed: ", end.why));
}

std::vector<std::string> RunQueue::Step(double now_seconds) {
  std::vector<std::string> lines;
  size_t running = 0;
  for (size_t i = 0; i < runs_.size(); ++i) {
    RunState& state = states_[i];
    if (state.state != State::kRunning) continue;
    if (const std::optional<LaunchEnd> end = launcher_.Ended(i)) {
      Settle(i, *end, &lines);
    } else {
      state.round = launcher_.Round(i);
      ++running;
    }
  }
  for (size_t i = 0; i < runs_.size() && running < jobs_ && !stopping_; ++i) {
    RunState& state = states_[i];
    if (state.state != State::kWaiting || launcher_.Busy(i)) continue;
    state.round = launcher_.Round(i);
    const absl::Status started = launcher_.Start(i);
    if (!started.ok()) {
      Settle(i, {false, std::string(started.message())}, &lines);
      continue;
    }
    state.state = State::kRunning;
    ++running;
    lines.push_back(absl::StrCat(NameOf(runs_[i]), state.round > 0 ? ": goes on at round " : ": ",
                                 state.round > 0 ? absl::StrCat(state.round) : "starts"));
  }
  if (!begun_at_) {
    begun_at_ = now_seconds;
    share_at_start_ = Share();
  }
  return lines;
}

bool RunQueue::done() const {
  for (const RunState& state : states_) {
    if (state.state == State::kRunning) return false;
    if (state.state == State::kWaiting && !stopping_) return false;
  }
  return true;
}

void RunQueue::Stop() {
  if (std::exchange(stopping_, true)) return;
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (states_[i].state == State::kRunning) launcher_.Stop(i);
  }
}

uint64_t RunQueue::round(size_t run) const {
  return states_[run].state == State::kFinished ? runs_[run].rounds
                                                : std::min(states_[run].round, runs_[run].rounds);
}

size_t RunQueue::Count(State state) const {
  return static_cast<size_t>(std::count_if(
      states_.begin(), states_.end(), [state](const RunState& one) { return one.state == state; }));
}

double RunQueue::Share() const {
  double done = 0;
  double all = 0;
  for (size_t i = 0; i < runs_.size(); ++i) {
    all += static_cast<double>(runs_[i].rounds);
    const bool over = states_[i].state == State::kBroken;
    done += static_cast<double>(over ? runs_[i].rounds : round(i));
  }
  return all > 0 ? done / all : 1;
}

std::optional<double> RunQueue::SecondsLeft(double now_seconds) const {
  if (!begun_at_) return std::nullopt;
  const double done = Share() - share_at_start_;
  if (done < kLeastShare) return std::nullopt;
  return (now_seconds - *begun_at_) / done * (1 - Share());
}

}  // namespace atolld
