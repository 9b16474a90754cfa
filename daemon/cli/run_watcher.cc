#include "daemon/cli/run_watcher.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "membership/run/losses.h"
#include "membership/run/utilisation.h"

namespace atolld {
namespace {

// Enough rounds for a steady pace, few enough to follow a peer that joins or dies.
constexpr int kPaceRounds = 8;

// A counter that fell by much has started again: its earlier value stays counted. A counter that
// fell by little has lost in a crash what it had not saved.
template <typename T>
void Count(T before, T now, T* total) {
  if (now >= before) {
    *total += now - before;
  } else if (now <= before / 2) {
    *total += now;
  }
}

}  // namespace

double RunHistory::ShiftOf(const v1::RunStatus& status, double now_seconds) {
  if (status.elapsed_seconds() <= 0) return 0;
  const double start = now_seconds - status.elapsed_seconds();
  if (!has_origin_) {
    has_origin_ = true;
    origin_seconds_ = start;
  }
  return shifts_.emplace(status.epoch(), start - origin_seconds_).first->second;
}

void RunHistory::Take(const v1::RunStatus& status, double now_seconds) {
  const double shift = ShiftOf(status, now_seconds);
  // What is known of a version stays: a restarted coordinator may remember a round, but not its
  // time.
  for (v1::RoundRecord round : status.rounds()) {
    round.set_elapsed_seconds(round.elapsed_seconds() + shift);
    rounds_.emplace(round.version(), round);
  }
  for (v1::EvaluationRecord evaluation : status.evaluations()) {
    evaluation.set_elapsed_seconds(evaluation.elapsed_seconds() + shift);
    evaluations_.emplace(evaluation.version(), evaluation);
  }
  for (const v1::PeerStatus& peer : status.peers()) {
    PeerHistory& history = peers_[peer.member().peer()];
    if (peer.has_progress()) {
      const v1::PeerProgress& before = history.newest.progress();
      Count(before.exchange_bytes_sent(), peer.progress().exchange_bytes_sent(),
            &history.bytes_sent);
      Count(before.train_seconds(), peer.progress().train_seconds(), &history.train_seconds);
    }
    // What is told is that of the newest contribution, again and again until the next.
    if (peer.has_utilisation() && peer.rounds_contributed() > history.newest.rounds_contributed()) {
      AddUtilisation(peer.utilisation(), &history.used);
    }
    v1::PeerStatus merged = peer;
    if (!peer.has_progress()) *merged.mutable_progress() = history.newest.progress();
    // A coordinator that was restarted counts from what its peers tell it; committed numbers never
    // fall.
    merged.set_rounds_contributed(
        std::max(merged.rounds_contributed(), history.newest.rounds_contributed()));
    merged.set_tokens(std::max(merged.tokens(), history.newest.tokens()));
    if (merged.state_version() < history.newest.state_version() || merged.state_digest().empty()) {
      merged.set_state_version(history.newest.state_version());
      merged.set_state_digest(history.newest.state_digest());
    }
    history.newest = std::move(merged);
  }
  // What is once known of the run stays known, whatever a coordinator that has just started leaves
  // out.
  v1::RunStatus merged = status;
  merged.clear_rounds();
  merged.clear_evaluations();
  merged.clear_peers();
  merged.set_tokens(std::max(newest_.tokens(), status.tokens()));
  merged.set_version(std::max(newest_.version(), status.version()));
  merged.set_parameters(std::max(newest_.parameters(), status.parameters()));
  if (!merged.has_spec() && newest_.has_spec()) *merged.mutable_spec() = newest_.spec();
  if (!merged.has_seal() && newest_.has_seal()) *merged.mutable_seal() = newest_.seal();
  newest_ = std::move(merged);
}

std::optional<double> RunHistory::wall_seconds() const {
  if (rounds_.empty() || rounds_.rbegin()->second.elapsed_seconds() <= 0) return std::nullopt;
  return rounds_.rbegin()->second.elapsed_seconds();
}

std::string RunHistory::loss_unit() const { return LossUnit(newest_.spec()); }

double RunHistory::seconds_left() const {
  if (rounds_.empty() || newest_.spec().rounds() < newest_.version()) return -1;
  // The first round's time counts from the first Train, at which no record stands.
  double from_seconds = 0;
  uint64_t from_version = 0;
  if (rounds_.size() > kPaceRounds) {
    const auto from = std::prev(rounds_.end(), kPaceRounds + 1);
    from_version = from->first;
    from_seconds = from->second.elapsed_seconds();
  }
  const auto& last = *rounds_.rbegin();
  const double pace = (last.second.elapsed_seconds() - from_seconds) /
                      static_cast<double>(last.first - from_version);
  return pace * static_cast<double>(newest_.spec().rounds() - newest_.version());
}

double RunHistory::elapsed_seconds(double now_seconds) const {
  return has_origin_ ? now_seconds - origin_seconds_ : 0;
}

std::optional<double> RunHistory::bytes_sent_per_peer_per_round() const {
  uint64_t bytes = 0;
  uint64_t rounds = 0;
  for (const auto& [id, peer] : peers_) {
    if (!peer.newest.has_progress() || peer.newest.progress().phase().empty()) continue;
    bytes += peer.bytes_sent;
    rounds += peer.newest.rounds_contributed();
  }
  if (rounds == 0) return std::nullopt;
  return static_cast<double>(bytes) / static_cast<double>(rounds);
}

std::optional<double> RunHistory::compute_utilization() const {
  const std::optional<double> wall = wall_seconds();
  if (peers_.empty() || !wall) return std::nullopt;
  const auto peers = static_cast<double>(peers_.size());
  // Two counts that can each only miss something: heartbeats are seconds old, and rounds leave out
  // the training that was never committed.
  double by_heartbeats = 0;
  for (const auto& [id, peer] : peers_) by_heartbeats += peer.train_seconds;
  double by_rounds = 0;
  for (const auto& [version, round] : rounds_) {
    by_rounds += round.train_seconds() * round.contributors();
  }
  const double trained = std::max(by_heartbeats, by_rounds);
  if (trained <= 0) return std::nullopt;
  return std::min(trained / peers / *wall, 1.0);
}

std::optional<double> RunHistory::least_busy() const {
  std::optional<double> least;
  for (const auto& [id, peer] : peers_) {
    const std::optional<double> share = TrainedShare(peer.used);
    if (share && (!least || *share < *least)) least = share;
  }
  return least;
}

// -----------------------------------------------------------------------------------------------

namespace {

std::string ClockTime(absl::Time time) {
  return absl::FormatTime("%H:%M:%S", time, absl::LocalTimeZone());
}

}  // namespace

AbsenceRule::AbsenceRule(std::string address, double now_seconds, absl::Time wall)
    : address_(std::move(address)), last_seconds_(now_seconds), last_wall_(ClockTime(wall)) {}

std::string AbsenceRule::Take(bool away, double now_seconds, absl::Time wall) {
  if (!away) {
    last_seconds_ = now_seconds;
    last_wall_ = ClockTime(wall);
  }
  if (away == away_) return "";
  away_ = away;
  if (!away) return absl::StrCat("the coordinator at ", address_, " answers again");
  return absl::StrCat("the coordinator at ", address_, " has not answered since ", last_wall_,
                      "; it is waited for up to ", kLongestSeconds, " s");
}

absl::Status AbsenceRule::GiveUp(double now_seconds) const {
  if (!away_ || now_seconds - last_seconds_ < kLongestSeconds) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the coordinator at ", address_, " has not answered for ", kLongestSeconds,
                   " s, since ", last_wall_, "; the run was not sealed when last heard of"));
}

// -----------------------------------------------------------------------------------------------

namespace {

// Often enough for a view that moves, rarely enough to cost nothing.
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
    // A new client each time: one that has reached no coordinator waits for seconds before it tries
    // again.
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
