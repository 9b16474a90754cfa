#include "membership/run/round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// Ready times remembered: a few rounds of a small run, about one of a large one.
constexpr size_t kReadyTimes = 64;

// Who begins later in a round than this share of the usual time will not be ready with the others:
// the deadline's 1.25 x median, without its second of slack.
constexpr double kUsefulStart = 0.25;

}  // namespace

std::string WaitingReason(size_t there, size_t needed) {
  const size_t missing = needed > there ? needed - there : 0;
  return absl::StrCat(there, " of ", needed, needed == 1 ? " peer" : " peers",
                      there == 1 ? " is" : " are", " here; waiting for ",
                      missing == 1 ? std::string("one") : absl::StrCat(missing), " more");
}

Round::Round(const RoundSettings& settings, bool started, uint64_t version)
    : settings_(settings), started_(started), version_(version), ready_times_(kReadyTimes) {}

const TrainingState* Round::Find(const std::string& peer) const {
  const auto it = trainers_.find(peer);
  return it == trainers_.end() ? nullptr : &it->second;
}

bool Round::There(const RosterMember& member, const TrainingState& trainer) const {
  if (!member.connected() || !member.present() || left_out_.count(member.peer) > 0) return false;
  if (trainer.activity == Activity::kReady) return true;
  if (!trainer.worker_ready) return false;
  if (member.draining && trainer.activity == Activity::kIdle) return false;
  return trainer.activity == Activity::kTraining ||
         (member.has_state && member.version + 1 == version_);
}

std::vector<std::string> Round::LeaveOut(const Roster& roster,
                                         const std::vector<std::string>& peers, size_t needed) {
  const std::set<std::string> before = std::exchange(left_out_, {});
  size_t there = 0;
  size_t dialled = 0;  // of them, those that others can dial
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (trainer == nullptr || !There(member, *trainer)) continue;
    ++there;
    dialled += member.address.empty() ? 0 : 1;
  }
  std::vector<std::string> fresh;
  for (const std::string& peer : peers) {
    const RosterMember* member = roster.Find(peer);
    const TrainingState* trainer = Find(peer);
    if (member == nullptr || trainer == nullptr || !There(*member, *trainer)) continue;
    if (there <= std::max<size_t>(needed, settings_.quorum)) break;
    if (!member->address.empty() && dialled == 1) continue;  // without it nobody could reduce
    --there;
    dialled -= member->address.empty() ? 0 : 1;
    left_out_.insert(peer);
    if (before.count(peer) == 0) fresh.push_back(peer);
  }
  return fresh;
}

bool Round::TryOpen(absl::Time now, const Roster& roster) {
  if (open_) return true;
  size_t there = 0;
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (trainer != nullptr && There(member, *trainer)) ++there;
  }
  const size_t needed = started_ ? settings_.quorum : std::max(settings_.peers, settings_.quorum);
  if (there < needed) {
    reason_ = WaitingReason(there, needed);
    return false;
  }
  reason_.clear();
  started_ = true;
  open_ = true;
  opened_ = now;
  return true;
}

std::vector<std::string> Round::Idle(const Roster& roster) const {
  std::vector<std::string> idle;
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (trainer != nullptr && trainer->activity == Activity::kIdle && There(member, *trainer))
      idle.push_back(peer);
  }
  return idle;
}

void Round::Assign(absl::Time now, const std::string& peer) {
  TrainingState& trainer = trainers_[peer];
  trainer.activity = Activity::kTraining;
  trainer.train_started = now;
  trainer.ready.Clear();
}

bool Round::LoseWorker(const std::string& peer) {
  TrainingState& trainer = trainers_[peer];
  if (trainer.worker_ready) trainer.worker_lost_in = version_;
  trainer.worker_ready = false;
  if (trainer.activity != Activity::kTraining) return false;
  trainer.activity = Activity::kIdle;
  trainer.train_started.reset();
  return true;
}

void Round::SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready) {
  TrainingState& trainer = trainers_[peer];
  if (trainer.activity == Activity::kTraining && trainer.train_started) {
    ready_times_.Add(now - *trainer.train_started);
    trainer.train_started.reset();  // said again, it is not a new measurement
  }
  trainer.activity = Activity::kReady;
  trainer.ready = ready;
}

absl::Time Round::LatestStart() const {
  if (ready_times_.empty()) return absl::InfiniteFuture();
  return opened_ + kUsefulStart * ready_times_.Median();
}

absl::Time Round::CloseDeadline() const {
  if (!open_) return absl::InfiniteFuture();
  const std::optional<absl::Duration> deadline = TrainDeadline(ready_times_);
  return deadline ? opened_ + *deadline : absl::InfiniteFuture();
}

bool Round::MayClose(absl::Time now, const Roster& roster) {
  if (!open_) return false;
  size_t ready = 0;
  size_t there = 0;
  bool awaited = false;  // somebody that may still become ready
  const absl::Time deadline = CloseDeadline();
  const absl::Time latest_start = LatestStart();
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (trainer == nullptr || !member.present() || left_out_.count(peer) > 0) continue;
    if (trainer->activity == Activity::kIdle) {
      // With no time known nobody would ever stop waiting for a worker that stays away.
      const bool may_be_back = trainer->worker_lost_in == version_ && !trainer->worker_ready &&
                               now < latest_start && latest_start != absl::InfiniteFuture();
      awaited = awaited || (may_be_back && !member.draining);
      continue;
    }
    const bool is_ready = trainer->activity == Activity::kReady && member.connected();
    ready += is_ready ? 1 : 0;
    there += There(member, *trainer) ? 1 : 0;
    const bool too_late = trainer->train_started && *trainer->train_started > latest_start;
    awaited = awaited || (!is_ready && !too_late);
  }
  reason_ = there < settings_.quorum ? WaitingReason(there, settings_.quorum) : "";
  if (ready < settings_.quorum) return false;
  return !awaited || now >= deadline;
}

std::vector<std::string> Round::Ready(const Roster& roster) const {
  std::vector<std::string> ready;
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (trainer != nullptr && trainer->activity == Activity::kReady && left_out_.count(peer) == 0 &&
        member.present() && member.connected()) {
      ready.push_back(peer);
    }
  }
  return ready;
}

void Round::Next(const std::vector<std::string>& contributors) {
  ++version_;
  open_ = false;
  reason_.clear();
  for (const std::string& peer : contributors) {
    TrainingState& trainer = trainers_[peer];
    trainer.activity = Activity::kIdle;
    trainer.train_started.reset();
    trainer.ready.Clear();
  }
  for (auto& [peer, trainer] : trainers_) {
    if (trainer.activity == Activity::kReady) trainer.activity = Activity::kTraining;
    trainer.ready.Clear();
  }
}

void Round::Skip(uint64_t version) {
  version_ = version;
  started_ = true;
  open_ = false;
  reason_.clear();
  for (auto& [peer, trainer] : trainers_) {
    if (trainer.activity == Activity::kReady) trainer.activity = Activity::kTraining;
    trainer.ready.Clear();
  }
}

void Round::Again(absl::Time now) {
  opened_ = now;
  for (auto& [peer, trainer] : trainers_) {
    if (trainer.activity == Activity::kReady) trainer.activity = Activity::kTraining;
  }
}

}  // namespace atolld
