// From one version to the next: who trains, the exchange, the commit.
#include <algorithm>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "membership/history/agreement.h"
#include "membership/run/round_text.h"
#include "membership/run/run.h"
#include "membership/trust/contribution_proof.h"

namespace atolld {
namespace {

// Rounds for which a peer that others could not reach is not asked to reduce.
constexpr uint64_t kSparedRounds = 8;

}  // namespace

void Run::Advance(absl::Time now) {
  reason_.clear();
  lacks_reachable_ = false;
  if (seal_) {
    AdvanceSealed(now);
    return;
  }
  if (AdvanceAdoption(now)) return;
  if (!genesis_) {
    AskForGenesis(now);
    return;
  }
  if (exchange_ && now >= revision_ends_) Act(now, exchange_->OnDeadline());
  if (version() >= LastVersion()) {
    AdvanceEnd(now);
    return;
  }
  if (exchange_ || control_.paused()) {
    if (!exchange_) reason_ = PausedReason();
    if (exchange_ || round_.started()) Evaluate(now);
    return;  // who comes now begins with the next round
  }
  LeaveOutOffenders();
  const bool was_started = round_.started();
  const bool open = round_.TryOpen(now, roster_);
  if (open && !was_started) out_.update.started = true;
  if (open) Evaluate(now);
  if (!open) return;
  for (const std::string& peer : round_.Idle(roster_)) Train(now, peer);
  if (round_.MayClose(now, roster_) && !roster_.in_grace(now)) BeginExchange(now);
}

void Run::AskForGenesis(absl::Time now) {
  if (!genesis_maker_.empty()) return;
  // One of those that were members may hold a version 0 that the store has not seen.
  if (roster_.in_grace(now)) {
    reason_ = "waiting for the peers that were members before the coordinator's restart";
    return;
  }
  const RosterMember* maker = nullptr;
  std::vector<std::string> dial_out;
  // It takes version 0 from one that dials it, and gives it to all.
  const bool aggregator =
      std::any_of(roster_.members().begin(), roster_.members().end(), [](const auto& entry) {
        return entry.second.aggregator && entry.second.connected() && entry.second.present();
      });
  const auto rank = [](const RosterMember& member) {
    return std::make_pair(member.has_state, !member.address.empty());
  };
  for (const auto& [peer, member] : roster_.members()) {
    const TrainingState* trainer = round_.Find(peer);
    if (!member.connected() || !member.present() || trainer == nullptr || !trainer->worker_ready)
      continue;
    if (member.address.empty() && !round_.alone() && !aggregator) {
      dial_out.push_back(peer);  // nobody could fetch it from there
    } else if (maker == nullptr || rank(member) > rank(*maker)) {
      maker = &member;
    }
  }
  if (maker == nullptr) {
    lacks_reachable_ = !dial_out.empty();
    reason_ =
        dial_out.empty()
            ? std::string("no worker is ready yet to make the initial state")
            : absl::StrCat("no reachable peer to make version 0: ", absl::StrJoin(dial_out, ", "),
                           dial_out.size() == 1 ? " has" : " have",
                           " no address that others can dial");
    return;
  }
  genesis_maker_ = maker->peer;
  v1::CoordinatorMessage message;
  message.mutable_make_initial_state();
  SendTo(genesis_maker_, std::move(message));
  Say(absl::StrCat("peer ", genesis_maker_, " makes the initial state"));
}

uint32_t Run::StepsOf(const std::string& peer) const {
  std::vector<absl::Duration> all;
  absl::Duration own;
  for (const auto& [other, info] : peers_) {
    const RosterMember* member = roster_.Find(other);
    if (info.step_times.empty() || member == nullptr || !member->present()) continue;
    all.push_back(info.step_times.Median());
    if (other == peer) own = all.back();
  }
  return StepsFor(settings_.pace, spec_.inner().steps(), own, all);
}

void Run::Train(absl::Time now, const std::string& peer) {
  if (!first_train_) first_train_ = now;
  leases_.Return(peer);  // this Train replaces whatever it had
  v1::CoordinatorMessage message;
  v1::Train* train = message.mutable_train();
  train->set_version(round_.version());
  train->set_epoch(epoch_);
  train->set_first_step((round_.version() - 1) * spec_.inner().steps());
  train->set_steps(StepsOf(peer));
  const uint64_t samples = uint64_t{train->steps()} * spec_.inner().batch();
  for (const v1::SampleRange& range : leases_.Grant(peer, samples)) *train->add_samples() = range;
  leases_changed_ = true;
  round_.Assign(now, peer);
  SendTo(peer, std::move(message));
}

void Run::BeginExchange(absl::Time now) {
  std::vector<ExchangeContributor> contributors = Contributors(now);
  if (contributors.size() < settings_.round.quorum) return;  // who trains anew is waited for
  contributions_.clear();
  for (const ExchangeContributor& contributor : contributors) {
    const std::string& peer = contributor.member.peer();
    contributions_[peer] = round_.trainer(peer).ready;
  }
  ExchangeTerms terms;
  std::string lacking;
  terms.aggregators = Aggregators(now, &lacking);
  const absl::Status reducible = ExchangeRound::Reducible(
      contributors, MayCommitAlone(contributors.front().member.peer()), terms.aggregators);
  if (!reducible.ok()) {
    lacks_reachable_ = true;
    reason_ = absl::StrCat(reducible.message(), lacking);
    return;
  }
  terms.version = round_.version();
  terms.epoch = epoch_;
  terms.parameters = genesis_->manifest().elements();
  terms.chunk_elements = spec_.exchange().chunk_elements();
  terms.quorum = settings_.round.quorum;
  const std::string change =
      planner_.Plan(roster_, settings_.encoded_size(terms.parameters), &terms, &contributors);
  if (!change.empty()) Say(absl::StrCat("round ", round_.version(), ": ", change));
  terms.audit_share = absl::bit_cast<float>(spec_.exchange().audit_share_bits());
  terms.previous_header_digest = digests_.back();
  terms.draw_nonce = settings_.draw_nonce;
  terms.deadline =
      ExchangeDeadline(exchange_times_, terms.parameters, given_up_, settings_.failure_timeout);
  if (terms.version == 1) terms.state_digest = genesis_->state_digest();
  exchange_ = std::make_unique<ExchangeRound>(terms, std::move(contributors));
  exchange_began_ = now;
  agreed_at_ = absl::InfiniteFuture();
  revision_ends_ = now + absl::Milliseconds(exchange_->plan().deadline_milliseconds());
  for (const std::string& peer : exchange_->Voters()) SendPlan(peer);
}

// Those that can reduce now. `lacking`: of the others that are here what they wait for, in words.
std::vector<ExchangeAggregator> Run::Aggregators(absl::Time now, std::string* lacking) {
  std::vector<ExchangeAggregator> aggregators;
  for (const auto& [peer, member] : roster_.members()) {
    if (!member.aggregator || !member.connected() || !member.present() || member.draining) continue;
    if (!member.has_state || member.version + 1 != round_.version()) {
      absl::StrAppend(lacking, "; aggregator ", peer, " does not hold version ",
                      round_.version() - 1, " yet");
      continue;
    }
    const PeerInfo& info = peers_[peer];
    aggregators.push_back({peer, member.address, info.spared_until < round_.version(),
                           now < info.dialled_in_vain_until, member.region});
  }
  return aggregators;
}

// In a run of one, where nobody is left behind who can be waited for instead.
bool Run::MayCommitAlone(const std::string& peer) const {
  return round_.alone() &&
         std::none_of(roster_.members().begin(), roster_.members().end(), [&](const auto& entry) {
           const RosterMember& member = entry.second;
           return entry.first != peer && member.present() && !member.address.empty() &&
                  member.has_state && member.version == version();
         });
}

void Run::SendPlan(const std::string& peer) {
  v1::CoordinatorMessage message;
  *message.mutable_plan() = exchange_->plan();
  SendTo(peer, std::move(message));
}

void Run::SendAudit(const std::string& peer, const v1::Audit& order) {
  v1::CoordinatorMessage message;
  *message.mutable_audit() = order;
  SendTo(peer, std::move(message));
}

void Run::Act(absl::Time now, const ExchangeRound::Outcome& outcome) {
  const std::string prefix = absl::StrCat("round ", round_.version(), ": ");
  for (const std::string& error : outcome.errors) Say(prefix + error, RunOutput::Severity::kError);
  for (const std::string& event : outcome.events)
    Say(prefix + event, RunOutput::Severity::kWarning);
  for (const auto& [peer, why] : outcome.suspects) {
    ++peers_[peer].suspicions;
    peers_[peer].offence = prefix + why;
  }
  Follow(now, outcome);
  for (const auto& [peer, evidence] : outcome.liars) EvictLiar(now, peer, prefix + evidence);
  if (!exchange_) return;
  for (const auto& [peer, order] : exchange_->TakeAuditOrders()) SendAudit(peer, order);
}

void Run::Follow(absl::Time now, const ExchangeRound::Outcome& outcome) {
  switch (outcome.verdict) {
    case ExchangeRound::Verdict::kWait:
      return;
    case ExchangeRound::Verdict::kAudit:
      agreed_at_ = std::min(agreed_at_, now);
      revision_ends_ = now + exchange_->AuditPatience();
      return;
    case ExchangeRound::Verdict::kRevised:
      agreed_at_ = absl::InfiniteFuture();
      revision_ends_ = now + absl::Milliseconds(exchange_->plan().deadline_milliseconds());
      for (const std::string& peer : exchange_->Voters()) SendPlan(peer);
      return;
    case ExchangeRound::Verdict::kCommit:
      Commit(now);
      return;
    case ExchangeRound::Verdict::kGiveUp:
      GiveUpExchange(now);
      return;
  }
}

void Run::Commit(absl::Time now) {
  // Moved out, so that nothing below can reach a decided exchange. Evidence about it may yet come.
  last_exchange_ = std::move(exchange_);
  const ExchangeRound* const exchange = last_exchange_.get();
  // What the update was trained on, by its own word: it was held to that when it was offered.
  const auto samples = [this](const std::string& peer) {
    const auto& named = contributions_.at(peer).samples();
    return named.empty() ? leases_.Held(peer) : LeaseBook::Ranges(named.begin(), named.end());
  };
  v1::EntryHeader header =
      MakeHeader({spec_, settings_.scalars, digests_.back(), samples, exchange->nonce()},
                 exchange->plan(), exchange->agreement());
  if (settings_.sign_header) header.set_signature(settings_.sign_header(header));
  const absl::Status valid = settings_.check_header(*genesis_, version(), digests_.back(), header);
  if (!valid.ok()) {
    Say(absl::StrCat("round ", round_.version(),
                     ": the voters agreed on what is no valid entry: ", valid.message()),
        RunOutput::Severity::kError);
    GiveUpExchange(now);
    return;
  }
  v1::RoundRecord record = RecordRound(now, header);
  noise_.NoteCommit(exchange->plan(), exchange->agreement(), exchange->votes(), &record);
  rounds_.push_back(record);
  rounds_.back().set_revisions(exchange->plan().revision());
  out_.update.headers.push_back(header);
  out_.update.rounds.push_back(rounds_.back());
  digests_.push_back(settings_.header_digest(header));
  header_ = header;
  const absl::Duration exchanged = std::min(agreed_at_, now) - exchange_began_;
  exchange_times_.Add(exchanged);
  given_up_ = 0;
  planner_.NoteEnd(roster_, *exchange, exchanged);
  for (const std::string& peer : exchange->unreachable()) {
    peers_[peer].spared_until = header.version() + kSparedRounds;
  }
  SayOffences(judge_.NoteCommit(header));
  out_.update.judged = judge_.Record();
  const std::vector<std::string> included = Settle(header, exchange->plan());
  for (const std::string& peer : exchange->voters()) {
    const RosterMember* member = roster_.Find(peer);
    // It needs nothing but the header to step, so its next Train may follow at once. Whoever has
    // not voted may have to fetch the entry first.
    if (!exchange->Lost(peer) && member->connected() && member->present())
      roster_.SetState(peer, header.version());
  }
  roster_changed_ = true;
  Say(absl::StrCat("round ", header.version(), ": committed by ", absl::StrJoin(included, ", "),
                   "; exchange ", ExchangeTime(record)),
      RunOutput::Severity::kRecord);
  v1::CoordinatorMessage message;
  *message.mutable_commit()->mutable_header() = header;
  SendToAll(message);
}

std::vector<std::string> Run::Settle(const v1::EntryHeader& header, const v1::Plan& plan) {
  std::vector<std::string> included;
  for (const v1::Contributor& contributor : header.contributors()) {
    included.push_back(contributor.peer());
    PeerInfo& info = peers_[contributor.peer()];
    ++info.rounds;
    info.tokens += contributor.tokens();
    const v1::Ready& ready = contributions_.at(contributor.peer());
    if (ready.train_seconds() > 0) {
      info.step_times.Add(absl::Seconds(ready.train_seconds() / ready.steps()));
    }
    leases_.Spend(contributor.peer());
  }
  for (const v1::PlanMember& member : plan.contributors()) {
    if (std::find(included.begin(), included.end(), member.peer()) != included.end()) continue;
    if (round_.trainer(member.peer()).activity == Activity::kIdle) leases_.Return(member.peer());
  }
  leases_changed_ = true;
  contributions_.clear();
  round_.Next(included);
  return included;
}

v1::RoundRecord Run::RecordRound(absl::Time now, const v1::EntryHeader& header) const {
  v1::RoundRecord record;
  record.set_version(header.version());
  record.set_contributors(static_cast<uint32_t>(header.contributors_size()));
  record.set_elapsed_seconds(Elapsed(now));
  const absl::Time agreed = std::min(agreed_at_, now);
  record.set_exchange_seconds(absl::ToDoubleSeconds(agreed - exchange_began_));
  record.set_audit_seconds(absl::ToDoubleSeconds(now - agreed));
  const ChosenPlan& chosen = planner_.chosen();
  record.set_plan(std::string(PlanShapeName(chosen.shape)));
  if (chosen.prediction) record.set_predicted_seconds(chosen.prediction->seconds);
  double loss = 0;
  double seconds = 0;
  uint64_t tokens = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    const v1::Ready& ready = contributions_.at(contributor.peer());
    loss += ready.loss() * static_cast<double>(ready.tokens());
    seconds += ready.train_seconds();
    tokens += ready.tokens();
  }
  record.set_tokens(tokens);
  record.set_train_loss(tokens == 0 ? 0 : loss / static_cast<double>(tokens));
  record.set_train_seconds(seconds / std::max(1, header.contributors_size()));
  return record;
}

void Run::SendDoubts() {
  for (const auto& [peer, digest] : exchange_->Doubted()) {
    v1::CoordinatorMessage message;
    message.mutable_check_state()->set_version(version());
    message.mutable_check_state()->set_state_digest(digest);
    SendTo(peer, std::move(message));
  }
}

void Run::GiveUpExchange(absl::Time now) {
  // A new epoch makes every key of the failed attempt stale, and its Welcome asks all for their
  // contribution again. First those are told whose replicas may have drifted: without them there
  // would be no next header from which they could see it.
  if (exchange_) {
    ++given_up_;
    SendDoubts();
    for (const std::string& peer : exchange_->unreachable()) {
      peers_[peer].spared_until = round_.version() + kSparedRounds;
      peers_[peer].dialled_in_vain_until = now + settings_.failure_timeout;
    }
  }
  exchange_.reset();
  SayOffences(judge_.NoteGivenUp());
  out_.update.judged = judge_.Record();
  for (const auto& [peer, ready] : contributions_) {
    if (round_.trainer(peer).activity == Activity::kIdle) {
      leases_.Return(peer);
      leases_changed_ = true;
    }
  }
  contributions_.clear();
  BeginEpoch(now);
  round_.Again(now);
  SendToAll(Welcome());
  Say(absl::StrCat("round ", round_.version(), ": this attempt failed; all try again"),
      RunOutput::Severity::kWarning);
}

}  // namespace atolld
