#include "membership/run/training.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// The limit of a config's inner.steps, and the most that a peer accepts.
constexpr uint32_t kMostStepsAtOnce = 1000000;

// The most samples that a lost lease book may have granted past the newest entry: far more than in
// any run, without overflow.
constexpr uint64_t kMostSamplesAhead = uint64_t{1} << 40;

}  // namespace

Training::Training(const RoundSettings& settings, bool started, uint64_t version,
                   const LeaseRecords& leases)
    : settings_(settings), round_(settings, started, version), leases_(leases) {}

std::optional<LeaseRecords> Training::TakeChanged() {
  if (!std::exchange(changed_, false)) return std::nullopt;
  return leases_.Save();
}

v1::Train Training::MakeTrain(uint64_t version, uint64_t epoch, uint32_t steps,
                              const v1::RunSpec& spec, const std::string& peer,
                              const std::string& holder) {
  leases_.Return(holder);
  v1::Train train;
  train.set_version(version);
  train.set_epoch(epoch);
  train.set_first_step((version - 1) * spec.inner().steps());
  const uint32_t rounds = settings_.participation.RoundsAtOnce(version, spec.rounds(), peer);
  train.set_steps(std::min(steps * rounds, std::max(steps, kMostStepsAtOnce)));
  train.set_number((epoch << 32) + ++trains_);
  if (settings_.private_data) return train;
  const uint64_t samples = uint64_t{train.steps()} * spec.inner().batch();
  for (const v1::SampleRange& range : leases_.Grant(holder, samples)) *train.add_samples() = range;
  changed_ = true;
  return train;
}

v1::Train Training::Assign(absl::Time now, const std::string& peer, uint64_t epoch,
                           const PacedSteps& paced, const v1::RunSpec& spec) {
  DropAhead(peer);
  v1::Train train = MakeTrain(round_.version(), epoch, paced.steps, spec, peer, peer);
  train.set_refused(std::exchange(round_.trainer(peer).refused, false));
  const uint32_t at_once =
      settings_.participation.RoundsAtOnce(round_.version(), spec.rounds(), peer);
  round_.Assign(now, peer, paced.rounds * at_once);
  round_.trainer(peer).train_number = train.number();
  return train;
}

v1::Train Training::AssignAhead(absl::Time now, const std::string& peer, uint64_t epoch,
                                const PacedSteps& paced, const v1::RunSpec& spec) {
  v1::Train train =
      MakeTrain(round_.version() + 1, epoch, paced.steps, spec, peer, AheadHolder(peer));
  train.set_ahead(true);
  const bool waits = round_.trainer(peer).activity != Activity::kReady;
  const auto started = waits ? std::nullopt : std::make_optional(now);
  round_.SetAhead(peer, {waits, started, train.number(), paced.rounds});
  return train;
}

// No mean contains the samples of a training ahead, so they become free.
void Training::DropAhead(const std::string& peer) {
  round_.DropAhead(peer);
  TakeBack(AheadHolder(peer));
}

// Called when the update and the commit were sent at the same time. A later Train is not affected
// by the update.
void Training::DropLate(const std::string& peer, const v1::Ready& ready) {
  const TrainingState& trainer = round_.trainer(peer);
  const LeaseBook::Ranges named(ready.samples().begin(), ready.samples().end());
  const bool same =
      settings_.private_data ? Answers(peer, ready) : leases_.HoldsExactly(peer, named);
  const bool said_again = ready.version() <= trainer.settled;
  if (!settings_.one_entry || trainer.activity != Activity::kTraining || !same || said_again)
    return;
  leases_.Return(peer);
  leases_.Hand(AheadHolder(peer), peer);
  changed_ = true;
  round_.Free(peer);
}

// A finished contribution belongs to the daemon and outlives the worker; inner steps do not.
void Training::LoseWorker(const std::string& peer) {
  if (round_.LoseWorker(peer)) TakeBack(peer);
  DropAhead(peer);
}

bool Training::Resume(const std::string& peer, const HeldTraining& held) {
  // A training ahead that an earlier process of the coordinator gave the peer may by now be the
  // update that it offers.
  if (!leases_.HoldsExactly(AheadHolder(peer), held.ahead)) TakeBack(AheadHolder(peer));
  if (settings_.private_data ? !held.trains : held.samples.empty() || !Adopt(peer, held.samples)) {
    DropAhead(peer);
    Stop(peer);
    return false;
  }
  ResumeAhead(peer, held);
  TrainingState& trainer = round_.trainer(peer);
  trainer.offers = held.offers;
  if (settings_.trains_ahead && !held.offers && trainer.activity == Activity::kReady) {
    round_.SetActivity(peer, Activity::kTraining);  // the update that it offered is gone
  }
  ++trainer.hellos;
  trainer.train_number = 0;  // the newest Train may have been lost with the session before
  if (trainer.activity == Activity::kIdle) {
    round_.SetActivity(peer, Activity::kTraining);
    trainer.train_started.reset();
    trainer.resumed = true;
    trainer.began_for = round_.version();
    trainer.rounds = 1;
  }
  return true;
}

void Training::ResumeAhead(const std::string& peer, const HeldTraining& held) {
  const std::optional<AheadTraining> known = round_.trainer(peer).ahead;
  const bool goes_on =
      settings_.trains_ahead && held.offers &&
      (settings_.private_data ? held.trains_ahead
                              : !held.ahead.empty() && Adopt(AheadHolder(peer), held.ahead));
  if (!goes_on) return DropAhead(peer);
  AheadTraining ahead = known.value_or(AheadTraining());
  ahead.waits = false;
  ahead.number = 0;  // unknown for the same reason as train_number above
  round_.SetAhead(peer, ahead);
}

void Training::Stop(const std::string& peer) {
  round_.SetActivity(peer, Activity::kIdle);
  round_.trainer(peer).offers = false;
  round_.trainer(peer).train_started.reset();
}

void Training::TakeBack(const std::string& peer) {
  if (!leases_.holds(peer)) return;
  leases_.Return(peer);
  changed_ = true;
}

void Training::TakeBackIfIdle(const std::string& peer) {
  if (round_.trainer(peer).activity != Activity::kIdle) return;
  leases_.Return(peer);
  changed_ = true;
}

void Training::Discard(const std::string& peer, bool refused) {
  DropAhead(peer);
  if (refused) round_.trainer(peer).refused = true;
  round_.trainer(peer).discarded_in = round_.version();
  round_.trainer(peer).offers = false;
  round_.SetActivity(peer, Activity::kIdle);
  leases_.Return(peer);
  changed_ = true;
}

bool Training::Adopt(const std::string& peer, absl::Span<const v1::SampleRange> samples) {
  // Usually the peer names the samples that it was given; then there is nothing to store.
  if (leases_.HoldsExactly(peer, samples)) return true;
  if (!leases_.Adopt(peer, samples)) return false;
  changed_ = true;
  return true;
}

// The samples do not decide it, because a peer may again be granted the samples of a training that
// it has lost.
bool Training::Answers(const std::string& peer, const v1::Ready& ready) const {
  const TrainingState* const trainer = round_.Find(peer);
  return trainer == nullptr || trainer->train_number == 0 || ready.train_number() == 0 ||
         trainer->train_number == ready.train_number();
}

bool Training::MayOffer(const std::string& peer, absl::Span<const v1::SampleRange> samples) {
  if (settings_.private_data) return round_.trainer(peer).activity != Activity::kIdle;
  if (samples.empty()) return leases_.holds(peer);
  if (Adopt(peer, samples)) return true;
  // It may offer the training that it was given ahead.
  DropAhead(peer);
  return Adopt(peer, samples);
}

void Training::SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready) {
  v1::Ready checked = ready;
  const LeaseBook::Ranges held = leases_.Held(peer);
  *checked.mutable_samples() = {held.begin(), held.end()};
  round_.SetReady(now, peer, checked);
}

uint64_t Training::Held(const std::string& peer) const {
  uint64_t held = 0;
  for (const v1::SampleRange& range : leases_.Held(peer)) held += range.count();
  return held;
}

std::vector<std::string> Training::Settle(const v1::EntryHeader& header, const v1::Plan& plan) {
  std::vector<std::string> included;
  for (const v1::Contributor& contributor : header.contributors()) {
    included.push_back(contributor.peer());
    leases_.Spend(contributor.peer());
  }
  std::vector<std::string> sorted = included;
  std::sort(sorted.begin(), sorted.end());
  for (const v1::PlanMember& member : plan.contributors()) {
    if (std::binary_search(sorted.begin(), sorted.end(), member.peer())) continue;
    if (round_.trainer(member.peer()).activity == Activity::kIdle) leases_.Return(member.peer());
  }
  changed_ = true;
  for (const std::string& peer : round_.Next(included)) {
    leases_.Return(peer);  // the samples of a dropped update; a contributor holds none any more
    leases_.Hand(AheadHolder(peer), peer);
  }
  return included;
}

void Training::BeginAt(uint64_t first_sample) {
  if (leases_.next() == first_sample) return;
  leases_ = LeaseBook(LeaseRecords{first_sample, {}});
  changed_ = true;
}

void Training::AdoptHistory(LeaseBook leases, uint64_t version, const Roster& roster,
                            const v1::Headers& headers) {
  std::set<std::string> named;
  for (const v1::EntryHeader& header : headers.headers()) {
    for (const v1::Contributor& one : header.contributors()) named.insert(one.peer());
  }
  leases_ = std::move(leases);
  changed_ = true;
  behind_ = true;
  round_.Skip(version);
  for (const auto& [peer, member] : roster.members()) {
    DropAhead(peer);  // a peer that still has one names it in its Hello
    const bool dropped = settings_.one_entry && round_.trainer(peer).offers;
    if (dropped) leases_.Return(peer);
    const bool taken = settings_.private_data ? named.count(peer) > 0 : !leases_.holds(peer);
    if ((taken || dropped) && round_.trainer(peer).activity != Activity::kIdle) Stop(peer);
  }
}

void Training::Reach(absl::Span<const v1::SampleRange> samples, bool only_recovered) {
  if (!behind_ || !only_recovered) return;
  uint64_t end = 0;
  for (const v1::SampleRange& range : samples) {
    if (range.first() > leases_.next() + kMostSamplesAhead || range.count() > kMostSamplesAhead)
      return;
    end = std::max(end, range.first() + range.count());
  }
  if (end <= leases_.next()) return;
  leases_.Reach(end);
  changed_ = true;
}

}  // namespace atolld
