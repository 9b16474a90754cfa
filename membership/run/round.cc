#include "membership/run/round.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/words.h"
#include "membership/history/run_mode.h"
#include "membership/masking/masked_terms.h"

namespace atolld {
namespace {

// The number of ready times that are remembered. This covers a few rounds of a small run, or about
// one round of a large run.
constexpr size_t kReadyTimes = 64;

// A peer that begins later in a round than this share of the usual time will not be ready with the
// others. It is the deadline's 1.25 x median, without its second of slack.
constexpr double kUsefulStart = 0.25;

// A drawn peer that follows the commits is at the base by then. Short rounds wait this long for it
// before another peer is drawn instead.
constexpr absl::Duration kCatchingUp = absl::Seconds(1);

// The bound of a training time that a peer reports: with a longer one it does not delay the others.
constexpr absl::Duration kLongestTold = absl::Hours(24);

}  // namespace

RoundSettings WithParties(RoundSettings settings, const v1::RunSpec& spec) {
  settings.private_data = spec.data().private_();
  settings.participation = Participation(spec);
  settings.async = spec.mode().kind() == "async";
  settings.trains_ahead = TrainsAhead(spec);
  settings.one_entry = IsStreaming(spec);
  if (spec.privacy().masked()) settings.fewest = RosterRuleOf(spec.privacy()).fewest;
  return settings;
}

Round::Round(const RoundSettings& settings, bool started, uint64_t version)
    : settings_(settings),
      started_(started),
      version_(version),
      quorum_(settings.quorum),
      ready_times_(kReadyTimes) {}

void Round::Remember(absl::Span<const v1::RoundRecord> rounds) {
  for (const v1::RoundRecord& round : rounds) {
    if (round.train_seconds() > 0) ready_times_.Add(absl::Seconds(round.train_seconds()));
  }
}

TrainingState& Round::trainer(const std::string& peer) {
  const auto [found, fresh] = trainers_.try_emplace(peer);
  if (fresh) idle_.insert(peer);
  return found->second;
}

void Round::SetActivity(const std::string& peer, Activity activity) {
  TrainingState& state = trainer(peer);
  state.activity = activity;
  const auto put = [&peer](std::set<std::string>* peers, bool in) {
    in ? static_cast<void>(peers->insert(peer)) : static_cast<void>(peers->erase(peer));
  };
  put(&nothing_next_, activity != Activity::kIdle && !state.ahead);
  put(&idle_, activity == Activity::kIdle);
}

void Round::Forget(const std::string& peer) {
  trainers_.erase(peer);
  idle_.erase(peer);
  nothing_next_.erase(peer);
}

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

std::vector<std::string> Round::There(const Roster& roster) const {
  std::vector<std::string> there;
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* const trainer = Find(peer);
    if (trainer != nullptr && There(member, *trainer)) there.push_back(peer);
  }
  return there;
}

std::vector<std::string> Round::LeaveOut(const Roster& roster,
                                         const std::vector<std::string>& peers, size_t needed) {
  const std::set<std::string> before = std::exchange(left_out_, {});
  if (before != left_out_) awaited_.clear();
  if (peers.empty()) return {};
  awaited_.clear();
  size_t there = 0;
  size_t dialled = 0;  // how many of them others can dial
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
    if (there <= std::max<size_t>({needed, settings_.quorum, settings_.fewest})) break;
    if (!member->address.empty() && dialled == 1)
      continue;  // without this peer no peer could
                 // reduce
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
    if (trainer != nullptr && MayBeDrawn(absl::InfinitePast(), member, *trainer)) ++there;
  }
  // A peer that is left out is present, but is not counted.
  const size_t expected = roster.Expected(settings_.peers);
  const size_t awaited = started_ || settings_.async ? 0 : expected;
  const size_t needed =
      std::max<size_t>(awaited - std::min(awaited, left_out_.size()), settings_.quorum);
  if (there < needed) {
    reason_ = WaitingReason(there, needed);
    return false;
  }
  reason_.clear();
  started_ = true;
  open_ = true;
  opened_ = now;
  look_pace_.Reset();  // its first draw is not postponed
  return true;
}

std::vector<std::string> Round::Idle(const Roster& roster) const {
  std::vector<std::string> idle;
  for (const std::string& peer : idle_) {
    const RosterMember* const member = roster.Find(peer);
    if (member != nullptr && There(*member, trainers_.at(peer))) idle.push_back(peer);
  }
  return idle;
}

// A peer that follows the commits holds the base a moment after those that made the entry. If it
// could not be drawn because of that, the same peers would train again and again.
bool Round::MayBeDrawn(absl::Time now, const RosterMember& member,
                       const TrainingState& trainer) const {
  if (There(member, trainer)) return true;
  if (!settings_.participation.draws() || left_out_.count(member.peer) > 0) return false;
  return member.connected() && member.present() && !member.draining && trainer.worker_ready &&
         trainer.activity == Activity::kIdle && member.has_state &&
         member.version + 2 == version_ && now < LatestStart();
}

Round::Drawn Round::Draw(absl::Time now, const Roster& roster) const {
  Drawn drawn;
  if (!settings_.participation.draws()) {
    drawn.train = Idle(roster);
    return drawn;
  }
  if (roster.in_grace(now)) return drawn;
  std::vector<std::string> all;
  size_t taking = 0;
  bool dialled = false;  // true if others can dial one of those that take part
  for (const auto& [peer, member] : roster.members()) {
    dialled = dialled || (member.aggregator && member.connected() && member.present());
    const TrainingState* const trainer = Find(peer);
    if (trainer == nullptr) continue;
    // After a restart, a peer's worker may be reported a moment after its training.
    const bool trains = trainer->activity != Activity::kIdle && member.connected() &&
                        member.present() && left_out_.count(peer) == 0;
    if (!trains && !MayBeDrawn(now, member, *trainer)) continue;
    all.push_back(peer);
    if (!trains) continue;
    dialled = dialled || !member.address.empty();
    taking += trainer->began_for == version_ && !IsLate(now, *trainer) ? 1 : 0;
  }
  const size_t wanted = settings_.participation.Number(all.size());
  if (taking >= wanted && dialled) return drawn;
  std::vector<std::string> order = settings_.participation.Order(version_, std::move(all));
  std::stable_partition(order.begin(), order.end(), [this](const std::string& peer) {
    return trainers_.at(peer).discarded_in != version_;
  });
  for (const std::string& peer : order) {
    const RosterMember& member = *roster.Find(peer);
    const TrainingState& trainer = trainers_.at(peer);
    if (trainer.activity != Activity::kIdle) continue;
    if (taking >= wanted && (dialled || member.address.empty())) continue;
    ++taking;
    dialled = dialled || !member.address.empty();
    if (There(member, trainer)) {
      drawn.train.push_back(peer);
    } else {
      drawn.awaited = true;
    }
  }
  return drawn;
}

// Returns true if the trainer has taken longer than the round waits for any peer.
bool Round::IsLate(absl::Time now, const TrainingState& trainer) const {
  const std::optional<absl::Duration> deadline = Deadline();
  if (!deadline || trainer.activity != Activity::kTraining) return false;
  const absl::Time began = trainer.train_started.value_or(opened_);
  return now > began + *deadline * trainer.rounds;
}

std::vector<std::string> Round::ToTrain(absl::Time now, const Roster& roster) const {
  return Draw(now, roster).train;
}

std::vector<std::string> Round::ToTrainNow(absl::Time now, const Roster& roster) {
  if (settings_.participation.draws() && !look_pace_.May(now, roster.members().size())) return {};
  return Draw(now, roster).train;
}

std::map<std::string, std::string> Round::Notes(absl::Time now, const Roster& roster) const {
  std::map<std::string, std::string> notes;
  const Participation& parties = settings_.participation;
  if (!open_ || (!parties.draws() && !parties.drops())) return notes;
  if (parties.draws()) {
    for (const std::string& peer : Idle(roster)) {
      notes[peer] = absl::StrCat("not drawn for round ", version_);
    }
    for (const std::string& peer : ToTrain(now, roster)) notes.erase(peer);
  }
  if (!DropsHold(roster)) return notes;
  for (const auto& [peer, trainer] : trainers_) {
    if (trainer.activity == Activity::kIdle || !parties.Dropped(version_, peer)) continue;
    notes[peer] = absl::StrCat("its update is dropped in round ", version_, "; it trains on");
  }
  return notes;
}

bool Round::DropsHold(const Roster& roster) const {
  if (!settings_.participation.drops()) return false;
  bool stays = false;
  bool dialled = false;  // true if others can dial one of those that stay
  bool any = false;      // true if any peer takes part
  for (const auto& [peer, member] : roster.members()) {
    if (!member.connected() || !member.present() || left_out_.count(peer) > 0) continue;
    const TrainingState* const trainer = Find(peer);
    const bool takes_part = trainer != nullptr && trainer->activity != Activity::kIdle;
    if (!takes_part && !member.aggregator) continue;
    const bool here =
        member.aggregator || (!settings_.participation.Dropped(version_, peer) &&
                              (trainer == nullptr || trainer->discarded_in != version_));
    any = any || !member.address.empty();
    dialled = dialled || (here && !member.address.empty());
    stays = stays || (here && takes_part);
  }
  return stays && (dialled || !any);
}

void Round::Assign(absl::Time now, const std::string& peer, double rounds) {
  SetActivity(peer, Activity::kTraining);
  TrainingState& training = trainer(peer);
  training.began_for = version_;
  training.rounds = rounds;
  training.train_started = now;
  training.resumed = false;
  training.offers = false;
  training.hellos = 0;
  training.ready.Clear();
}

std::vector<std::string> Round::MayTrainAhead(const Roster& roster) const {
  std::vector<std::string> able;
  if (!settings_.trains_ahead) return able;
  for (const std::string& peer : nothing_next_) {
    const RosterMember* const member = roster.Find(peer);
    const TrainingState& state = trainers_.at(peer);
    if (member == nullptr) continue;
    // A peer gets no training ahead while its update may be lost, because it must announce it
    // again, or while it still has to learn of commits.
    const bool unsure = state.offers || !member->has_state || member->version + 1 < version_;
    if (member->connected() && member->present() && !member->draining && state.worker_ready &&
        !(unsure && state.activity == Activity::kTraining) && left_out_.count(peer) == 0) {
      able.push_back(peer);
    }
  }
  return able;
}

void Round::SetAhead(const std::string& peer, const AheadTraining& ahead) {
  TrainingState& state = trainer(peer);
  state.ahead = ahead;
  SetActivity(peer, state.activity);
}

void Round::DropAhead(const std::string& peer) {
  TrainingState& state = trainer(peer);
  state.ahead.reset();
  SetActivity(peer, state.activity);
}

bool Round::LoseWorker(const std::string& peer) {
  awaited_.clear();
  TrainingState& lost = trainer(peer);
  if (lost.worker_ready) lost.worker_lost_in = version_;
  lost.worker_ready = false;
  if (lost.activity != Activity::kTraining) return false;
  if (settings_.trains_ahead && lost.offers)
    return false;  // the peer must announce its update
                   // again
  SetActivity(peer, Activity::kIdle);
  lost.train_started.reset();
  return true;
}

// Returns the time that the training took. One beside an exchange waits for the entry, before or
// after its boundary: if that counted, each wait for a missing peer would make the next one longer.
absl::Duration Round::TrainedFor(absl::Duration elapsed, const v1::Ready& ready) const {
  if (!settings_.trains_ahead || !(ready.train_seconds() > 0)) return elapsed;
  return std::min(elapsed, absl::Seconds(ready.train_seconds()));
}

void Round::SetReady(absl::Time now, const std::string& peer, const v1::Ready& ready) {
  TrainingState& done = trainer(peer);
  if (done.activity == Activity::kTraining && done.train_started) {
    done.ready_after = TrainedFor(now - *done.train_started, ready);
    ready_times_.Add(done.ready_after / done.rounds);
    done.train_started.reset();  // a repeated Ready is not a new measurement
  } else if (done.resumed && ready.train_seconds() > 0) {
    done.ready_after = std::min(absl::Seconds(ready.train_seconds()), kLongestTold);
    ready_times_.Add(done.ready_after);
  }
  done.resumed = false;
  done.hellos = 0;
  if (done.ahead && std::exchange(done.ahead->waits, false)) done.ahead->started = now;
  SetActivity(peer, Activity::kReady);
  done.ready = ready;
  done.offers = true;
}

absl::Time Round::LatestStart() const {
  if (ready_times_.empty()) return absl::InfiniteFuture();
  const absl::Duration useful = kUsefulStart * ready_times_.Median();
  return opened_ + (settings_.participation.draws() ? std::max(useful, kCatchingUp) : useful);
}

std::optional<absl::Duration> Round::Deadline() const {
  return settings_.waits ? std::nullopt : TrainDeadline(ready_times_);
}

bool Round::IsAwaited(const TrainingState& trainer) const {
  if (settings_.waits) return true;
  const bool too_late = trainer.train_started && *trainer.train_started > LatestStart();
  return !too_late && trainer.hellos < kMostHellos;
}

absl::Time Round::CloseDeadline() const {
  if (!open_) return absl::InfiniteFuture();
  if (settings_.async) {
    return enough_since_ ? *enough_since_ + AsyncGrace(ready_times_) : absl::InfiniteFuture();
  }
  const std::optional<absl::Duration> deadline = Deadline();
  return deadline ? opened_ + *deadline : absl::InfiniteFuture();
}

// Returns true if a peer that was awaited before is still awaited. This is checked at each update,
// because examining all peers each time would take the square of their number.
bool Round::StillAwaited(const Roster& roster) const {
  if (awaited_.empty() || !reason_.empty() || looked_at_ != roster.changes()) return false;
  const TrainingState* const trainer = Find(awaited_);
  return trainer != nullptr && trainer->activity == Activity::kTraining && IsAwaited(*trainer);
}

// Examines all peers at each update, because rounds are short and few peers are ready in one.
bool Round::MayCloseAsync(absl::Time now, const Roster& roster) {
  size_t ready = 0;
  size_t there = 0;
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* const trainer = Find(peer);
    if (trainer == nullptr || !There(member, *trainer)) continue;
    ++there;
    ready += trainer->activity == Activity::kReady ? 1 : 0;
  }
  quorum_ = settings_.quorum;
  reason_ = there < quorum_ ? WaitingReason(there, quorum_) : "";
  if (ready < quorum_) {
    enough_since_.reset();
    return false;
  }
  if (!enough_since_) enough_since_ = now;
  return ready == there || now >= CloseDeadline();
}

bool Round::MayClose(absl::Time now, const Roster& roster) {
  if (!open_) return false;
  if (settings_.async) return MayCloseAsync(now, roster);
  if (now < CloseDeadline() && StillAwaited(roster)) return false;
  awaited_.clear();
  looked_at_ = roster.changes();
  size_t ready = 0;
  size_t there = 0;
  size_t staying = 0;    // those whose updates are not dropped
  bool awaited = false;  // true if a peer may still become ready
  const bool drops = DropsHold(roster);
  const absl::Time deadline = CloseDeadline();
  const absl::Time latest_start = LatestStart();
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (trainer == nullptr || !member.present() || left_out_.count(peer) > 0) continue;
    if (trainer->activity == Activity::kIdle) {
      // While no times are known, the wait for a worker that does not come back would never end.
      const bool may_be_back = trainer->worker_lost_in == version_ && !trainer->worker_ready &&
                               now < latest_start && latest_start != absl::InfiniteFuture();
      awaited = awaited || (may_be_back && !member.draining);
      continue;
    }
    const bool is_ready = trainer->activity == Activity::kReady && member.connected();
    there += There(member, *trainer) ? 1 : 0;
    if (drops && settings_.participation.Dropped(version_, peer)) continue;
    staying += member.connected() ? 1 : 0;
    ready += is_ready ? 1 : 0;
    if (!is_ready && IsAwaited(*trainer)) {
      awaited = true;
      awaited_ = peer;
    }
  }
  const size_t needed = settings_.participation.Number(settings_.quorum);
  quorum_ = drops ? std::max<size_t>(1, std::min(needed, staying)) : needed;
  const size_t least = std::max<size_t>(needed, settings_.fewest);
  reason_ = there < least ? WaitingReason(there, least) : "";
  if (settings_.participation.draws() && !awaited) {
    const Drawn drawn = Draw(now, roster);
    awaited = drawn.awaited || !drawn.train.empty();
  }
  if (ready < quorum_) return false;
  return !awaited || now >= deadline;
}

std::vector<std::string> Round::Ready(const Roster& roster) const {
  std::vector<std::string> ready;
  const bool drops = DropsHold(roster);
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (drops && settings_.participation.Dropped(version_, peer)) continue;
    if (trainer != nullptr && trainer->activity == Activity::kReady && left_out_.count(peer) == 0 &&
        member.present() && member.connected()) {
      ready.push_back(peer);
    }
  }
  return ready;
}

std::vector<std::string> Round::Next(const std::vector<std::string>& contributors) {
  ++version_;
  quorum_ = settings_.quorum;
  open_ = false;
  enough_since_.reset();
  reason_.clear();
  awaited_.clear();
  std::vector<std::string> settled = contributors;
  for (const std::string& peer : contributors) trainer(peer).offers = false;
  for (const auto& [peer, trainer] : trainers_) {
    if (settings_.one_entry && trainer.offers) settled.push_back(peer);
  }
  for (const std::string& peer : settled) {
    // A Ready for it that comes later is said again, by a peer that came back meanwhile.
    trainer(peer).settled = version_ - 1;
    Free(peer);
  }
  AskAgain();
  return settled;
}

void Round::AskAgain() {
  for (auto& [peer, trainer] : trainers_) {
    if (trainer.activity == Activity::kReady) trainer.activity = Activity::kTraining;
    trainer.ready.Clear();
  }
}

void Round::Free(const std::string& peer) {
  TrainingState& state = trainer(peer);
  const std::optional<AheadTraining> ahead = std::exchange(state.ahead, std::nullopt);
  state.offers = false;
  state.ready.Clear();
  state.train_started.reset();
  SetActivity(peer, ahead ? Activity::kTraining : Activity::kIdle);
  if (!ahead) return;
  state.began_for = version_;
  state.train_started = ahead->started;
  state.train_number = ahead->number;
  state.resumed = !ahead->started.has_value();
  state.rounds = ahead->rounds;
}

void Round::Skip(uint64_t version) {
  version_ = version;
  started_ = true;
  open_ = false;
  enough_since_.reset();
  reason_.clear();
  AskAgain();
}

void Round::Again(absl::Time now) {
  opened_ = now;
  enough_since_.reset();
  AskAgain();
}

std::vector<std::string> Round::Evaluators(const Roster& roster, uint64_t version) const {
  std::vector<std::string> busy;
  std::vector<std::string> idle = Evaluators(roster, version, &busy);
  return idle.empty() ? busy : idle;
}

std::vector<std::string> Round::Evaluators(const Roster& roster, uint64_t version,
                                           std::vector<std::string>* busy) const {
  std::vector<std::string> idle;
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (!member.connected() || !member.present() || trainer == nullptr || !trainer->worker_ready)
      continue;
    if (!member.has_state || member.version != version) continue;
    (trainer->activity == Activity::kIdle ? idle : *busy).push_back(peer);
  }
  return idle;
}

std::string Round::GenesisMaker(const Roster& roster,
                                const std::map<std::string, uint64_t>& in_vain, std::string* reason,
                                bool* lacks_reachable) const {
  std::vector<std::string> dial_out;
  const RosterMember* maker = nullptr;
  // An aggregator can take version 0 from a peer that dials it, and give it to all others.
  const bool aggregator =
      std::any_of(roster.members().begin(), roster.members().end(), [](const auto& entry) {
        return entry.second.aggregator && entry.second.connected() && entry.second.present();
      });
  const auto rank = [&](const RosterMember& member) {
    const auto asked = in_vain.find(member.peer);
    return std::make_tuple(asked == in_vain.end() ? 0 : -static_cast<int64_t>(asked->second),
                           member.has_state, !member.in_vain, !member.address.empty());
  };
  size_t ready = 0;
  for (const auto& [peer, member] : roster.members()) {
    const TrainingState* trainer = Find(peer);
    if (!member.connected() || !member.present() || trainer == nullptr || !trainer->worker_ready)
      continue;
    ++ready;
    if (member.address.empty() && !alone() && !aggregator) {
      dial_out.push_back(peer);  // no peer could fetch it from there
    } else if (maker == nullptr || rank(member) > rank(*maker)) {
      maker = &member;
    }
  }
  // A peer that does not answer at its address may still be reachable for others. But as long as
  // more peers are expected, a peer that answers is preferred.
  if (maker != nullptr && maker->in_vain && ready < roster.Expected(settings_.peers)) {
    *reason = absl::StrCat("peer ", maker->peer, " does not answer at ", maker->claimed,
                           ", so another one is to make version 0");
    return "";
  }
  if (maker != nullptr) return maker->peer;
  *lacks_reachable = !dial_out.empty();
  *reason = dial_out.empty()
                ? std::string("no worker is ready yet to make the initial state")
                : absl::StrCat(
                      "no reachable peer to make version 0: ", absl::StrJoin(dial_out, ", "),
                      dial_out.size() == 1 ? " has" : " have", " no address that others can dial");
  return "";
}

}  // namespace atolld
