#include "membership/run/ending.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/planted_bug.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

// Returns the peers whose votes made the last version. Version 0 had no votes.
std::set<absl::string_view> VotersOf(const Ledger& ledger) {
  std::set<absl::string_view> voters;
  if (!ledger.header()) return voters;
  for (const v1::Contributor& voter : ledger.header()->contributors()) voters.insert(voter.peer());
  return voters;
}

// How many workers of one peer may end during one share: a person may have killed the first.
constexpr int kMostEnds = 2;

constexpr size_t kShareTimes = 16;  // the number of times that are remembered

// Chooses the next evaluator: of the peers that may find a loss, the one with the fewest shares to
// do; among equals, the first. Giving a share takes a few steps, however many peers there are.
class EvaluatorQueue {
 public:
  EvaluatorQueue(const Evaluation& evaluation, std::vector<std::string> peers)
      : peers_(std::move(peers)) {
    const std::map<std::string, size_t> open = evaluation.Open();
    for (size_t i = 0; i < peers_.size(); ++i) {
      const auto found = open.find(peers_[i]);
      order_.emplace(found == open.end() ? 0 : found->second, i);
    }
  }

  std::optional<std::string> Take(const Evaluation& evaluation, uint32_t share) {
    for (auto it = order_.begin(); it != order_.end(); ++it) {
      const auto [open, i] = *it;
      if (evaluation.FoundNone(share, peers_[i]) || evaluation.Spent(share, peers_[i])) continue;
      order_.erase(it);
      order_.emplace(open + 1, i);
      return peers_[i];
    }
    return std::nullopt;
  }

 private:
  const std::vector<std::string> peers_;
  std::set<std::pair<size_t, size_t>> order_;  // the number of shares that a peer has to do, and
                                               // the peer
};

}  // namespace

Evaluation::Evaluation(absl::Time now, uint64_t version, uint32_t shares, double elapsed_seconds)
    : version_(version),
      elapsed_seconds_(elapsed_seconds),
      began_(now),
      last_life_(now),
      shares_(shares) {}

bool Evaluation::barren() const {
  return own_.losses() == 0 && std::all_of(shares_.begin(), shares_.end(), [](const Share& share) {
           return share.tokens == 0 && std::isfinite(share.loss_sum);
         });
}

bool Evaluation::complete() const {
  return std::all_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.in; }) &&
         own_.Holders().empty();
}

std::optional<uint32_t> Evaluation::FirstFree() const {
  for (; first_free_ < shares_.size(); ++first_free_) {
    const Share& share = shares_[first_free_];
    if (!share.in && share.peer.empty()) return static_cast<uint32_t>(first_free_);
  }
  return std::nullopt;
}

bool Evaluation::Spent(uint32_t share, const std::string& peer) const {
  const Share& one = shares_[share];
  const auto asked = one.asked.find(peer);
  return overdue_.count(peer) > 0 || (asked != one.asked.end() && asked->second >= kMostEnds);
}

v1::Evaluate Evaluation::Give(absl::Time now, uint32_t share, const std::string& peer) {
  Share& given = shares_[share];
  given.peer = peer;
  given.given = given.life = last_life_ = now;
  given.done = 0;
  given.asked.emplace(peer, 0);
  v1::Evaluate evaluate;
  evaluate.set_version(version_);
  evaluate.set_share(share);
  evaluate.set_shares(static_cast<uint32_t>(shares_.size()));
  return evaluate;
}

std::map<std::string, size_t> Evaluation::Open() const {
  std::map<std::string, size_t> open;
  for (const Share& share : shares_) {
    if (!share.in && !share.peer.empty()) ++open[share.peer];
  }
  return open;
}

void Evaluation::TakeBack(const std::string& peer) {
  own_.TakeBack(peer);
  for (Share& share : shares_) {
    if (!share.in && share.peer == peer) share.peer.clear();
  }
  first_free_ = 0;
}

void Evaluation::LoseWorker(const std::string& peer) {
  for (Share& share : shares_) {
    if (!share.in && share.peer == peer) ++share.asked[peer];
  }
  TakeBack(peer);
}

// A worker does one share after another, so a sign of life in one share counts for all its shares.
void Evaluation::OnProgress(absl::Time now, const std::string& peer, uint64_t done) {
  own_.OnProgress(now, peer, done);
  bool lives = false;
  for (Share& share : shares_) {
    if (share.in || share.peer != peer) continue;
    lives = lives || (done > 0 && done != share.done);
    share.done = done;
  }
  if (!lives) return;
  last_life_ = now;
  for (Share& share : shares_) {
    if (!share.in && share.peer == peer) share.life = now;
  }
}

std::set<std::string> Evaluation::TakeOverdue(absl::Time now, absl::Duration patience) {
  std::set<std::string> late = own_.TakeOverdue(now, patience, kMostPatience * patience);
  for (Share& share : shares_) {
    if (share.in || share.peer.empty()) continue;
    if (now < std::min(share.life + patience, share.given + kMostPatience * patience)) continue;
    late.insert(share.peer);
    share.peer.clear();
    first_free_ = 0;
  }
  overdue_.insert(late.begin(), late.end());
  return late;
}

absl::Time Evaluation::Deadline(absl::Duration patience) const {
  absl::Time deadline = own_.Deadline(patience, kMostPatience * patience);
  for (const Share& share : shares_) {
    if (share.in || share.peer.empty()) continue;
    deadline = std::min({deadline, share.life + patience, share.given + kMostPatience * patience});
  }
  return deadline;
}

std::set<std::string> Evaluation::Holders() const {
  std::set<std::string> holders = own_.Holders();
  for (const Share& share : shares_) {
    if (!share.in && !share.peer.empty()) holders.insert(share.peer);
  }
  return holders;
}

std::optional<absl::Duration> Evaluation::OnEvaluated(absl::Time now, const std::string& peer,
                                                      const v1::Evaluated& evaluated) {
  if (evaluated.version() != version_) return std::nullopt;
  if (evaluated.has_own()) {
    const std::optional<absl::Duration> took = own_.OnEvaluated(now, peer, evaluated);
    if (took) last_life_ = now;
    return took;
  }
  if (evaluated.shares() != shares_.size() || evaluated.share() >= shares_.size()) {
    return std::nullopt;
  }
  Share& share = shares_[evaluated.share()];
  const bool anybody = Planted(PlantedBug::kLossOfAnybody);
  if (share.in || (share.asked.count(peer) == 0 && !anybody)) return std::nullopt;
  last_life_ = now;
  overdue_.erase(peer);
  for (Share& other : shares_) {  // the worker begins its next share now
    if (!other.in && other.peer == peer) other.life = now;
  }
  if (!std::isfinite(evaluated.loss_sum()) && !anybody) {
    share.found_none.insert(peer);
    share.none_tokens = evaluated.tokens();
    if (share.peer == peer) share.peer.clear();
    first_free_ = 0;
    return std::nullopt;
  }
  share.in = true;
  share.loss_sum = evaluated.loss_sum();
  share.tokens = evaluated.tokens();
  // If another peer has the share by now, the time at which this one began is unknown.
  if (share.peer != peer && !share.peer.empty()) return std::nullopt;
  return now - share.given;
}

void Evaluation::Close(uint32_t share) {
  shares_[share].in = true;
  shares_[share].loss_sum = std::numeric_limits<double>::quiet_NaN();
  shares_[share].tokens = shares_[share].none_tokens;
}

v1::EvaluationRecord Evaluation::Record() const {
  double loss_sum = 0;
  uint64_t tokens = 0;
  // Sums in the order of the shares, so that the sum does not depend on which peer answered first.
  for (const Share& share : shares_) {
    loss_sum += share.loss_sum;
    tokens += share.tokens;
  }
  v1::EvaluationRecord record;
  record.set_version(version_);
  record.set_elapsed_seconds(elapsed_seconds_);
  own_.Show(&record);
  // A common set without tokens does not count. Then only the parties' own losses count.
  const bool common = tokens > 0 || !std::isfinite(loss_sum);
  record.set_loss(common ? loss_sum / static_cast<double>(tokens) : record.own_mean());
  record.set_tokens(common ? tokens : own_.tokens());
  return record;
}

bool EvaluationDue(const v1::RunSpec& spec, uint64_t version, uint64_t last) {
  if (version == 0 || version == last) return true;
  const uint32_t every = spec.evaluation().every_rounds();
  return every > 0 && version % every == 0;
}

// -----------------------------------------------------------------------------------------------

Ending::Ending(const RunSettings& settings, bool sealed, absl::Time now)
    : settings_(settings), share_times_(kShareTimes) {
  if (sealed) sealed_at_ = now;
}

void Ending::Evaluate(absl::Time now, uint64_t last, Ledger* ledger, const Members& members,
                      const Round& round, RunOutput* out) {
  const uint64_t version = ledger->version();
  const v1::DataSpec& data = ledger->spec().data();
  const bool due = !evaluating(version) && EvaluationDue(ledger->spec(), version, last) &&
                   !ledger->Evaluated(version) && unjudged_ != version;
  if (evaluation_ && evaluation_->version() != version) CloseOld(now, round, due, ledger, out);
  // Usually there is no share to give out, so no peer needs to be looked for.
  if (!due && !evaluating(version)) return;
  if (due) {
    const size_t shares = round.Evaluators(members.roster(), version).size();
    if (shares == 0) return;
    const bool common = !data.private_() || data.common_validation();
    late_.clear();
    evaluation_.emplace(now, version, common ? static_cast<uint32_t>(shares) : 0,
                        ledger->Elapsed(now));
  }
  const absl::Duration patience = Patience(round);
  if (!Planted(PlantedBug::kEvaluationWaitedFor)) {
    for (const std::string& peer : evaluation_->TakeOverdue(now, patience)) {
      late_.insert(peer);
      out->Say(absl::StrCat("version ", version, ": peer ", peer, " was to evaluate a share of it ",
                            "and has not finished in time (", absl::FormatDuration(patience),
                            " without a sign of life); another is asked"),
               RunOutput::Severity::kWarning);
    }
  }
  if (data.private_()) AskOwn(now, members, round, out);
  const bool others_come = data.private_() && OthersCome(now, members, round);
  if (!evaluation_->FirstFree()) return others_come ? void() : Complete(ledger, out);
  const std::vector<std::string> evaluators = round.Evaluators(members.roster(), version);
  if (evaluators.empty()) return;
  GiveShares(now, evaluators, members, round, out);
  if (!others_come) Complete(ledger, out);
}

// Called when the run has continued to a later version. Peers that were asked for their own losses
// may still answer, until another version must be evaluated.
void Ending::CloseOld(absl::Time now, const Round& round, bool due, Ledger* ledger,
                      RunOutput* out) {
  if (evaluation_->FirstFree()) {
    out->Say(absl::StrCat("version ", evaluation_->version(),
                          ": its evaluation is incomplete and was dropped"),
             RunOutput::Severity::kWarning);
    return evaluation_.reset();
  }
  if (!ledger->spec().data().private_()) return;
  evaluation_->own().TakeOverdue(now, Patience(round), Evaluation::kMostPatience * Patience(round));
  if (due) evaluation_->own().Close();
  Complete(ledger, out);
}

void Ending::AskOwn(absl::Time now, const Members& members, const Round& round, RunOutput* out) {
  const uint64_t version = evaluation_->version();
  for (const std::string& peer : round.Evaluators(members.roster(), version)) {
    const std::optional<v1::Evaluate> order = evaluation_->own().Ask(now, version, peer);
    if (!order) continue;
    v1::CoordinatorMessage message;
    *message.mutable_evaluate() = *order;
    members.SendTo(peer, std::move(message), out);
  }
}

bool Ending::OthersCome(absl::Time now, const Members& members, const Round& round) const {
  if (now >= evaluation_->began() + settings_.failure_timeout) return false;
  const auto& all = members.roster().members();
  return std::any_of(all.begin(), all.end(), [&](const auto& entry) {
    const auto& [peer, member] = entry;
    const TrainingState* const trainer = round.Find(peer);
    return member.connected() && member.present() && trainer != nullptr && trainer->worker_ready &&
           member.has_state && member.version + 1 == evaluation_->version();
  });
}

absl::Duration Ending::Patience(const Round& round) const {
  return EvaluationPatience(share_times_, round.ready_times(), settings_.failure_timeout);
}

absl::Time Ending::NextDeadline(uint64_t version, const Round& round) const {
  return evaluating(version) ? evaluation_->Deadline(Patience(round)) : absl::InfiniteFuture();
}

void Ending::GiveShares(absl::Time now, const std::vector<std::string>& evaluators,
                        const Members& members, const Round& round, RunOutput* out) {
  EvaluatorQueue queue(*evaluation_, evaluators);
  std::optional<EvaluatorQueue> busy;
  for (auto share = evaluation_->FirstFree(); share; share = evaluation_->FirstFree()) {
    std::optional<std::string> peer = queue.Take(*evaluation_, *share);
    if (!peer) {
      if (!busy) {
        std::vector<std::string> all;
        round.Evaluators(members.roster(), evaluation_->version(), &all);
        busy.emplace(*evaluation_, std::move(all));
      }
      peer = busy->Take(*evaluation_, *share);
    }
    if (!peer) {
      if (evaluation_->FoundNone(*share) == 0)
        return;  // no peer that could compute it has
                 // answered
      if (evaluation_->FoundNone(*share) < FindersNeeded(*share, members)) return;
      evaluation_->Close(*share);
      continue;
    }
    v1::CoordinatorMessage message;
    *message.mutable_evaluate() = evaluation_->Give(now, *share, *peer);
    members.SendTo(*peer, std::move(message), out);
  }
}

// Returns how many peers must find no finite loss for a share before this is believed: two while
// another connected peer may still find one. One is enough if a single peer can make a round.
// Otherwise dead peers may come back, and without them there is no round anyway.
size_t Ending::FindersNeeded(uint32_t share, const Members& members) const {
  size_t needed = 1;
  for (const auto& [peer, member] : members.roster().members()) {
    if (member.aggregator || evaluation_->FoundNone(share, peer)) continue;
    if (member.present()) return 2;
    const bool gone = member.state == MemberState::kLeft || member.state == MemberState::kEvicted;
    if (!gone && settings_.round.quorum > 1) needed = 2;
  }
  return needed;
}

void Ending::OnEvaluated(absl::Time now, const std::string& peer, const v1::Evaluated& evaluated,
                         Ledger* ledger, RunOutput* out) {
  if (!evaluation_) return;
  const std::optional<absl::Duration> took = evaluation_->OnEvaluated(now, peer, evaluated);
  if (took) share_times_.Add(*took);
  // With private data others may still reach the version; the next Evaluate will know.
  if (!ledger->spec().data().private_()) Complete(ledger, out);
}

void Ending::Complete(Ledger* ledger, RunOutput* out) {
  if (!evaluation_ || !evaluation_->complete()) return;
  if (evaluation_->barren()) {
    unjudged_ = evaluation_->version();
    const bool news = !std::exchange(said_barren_, true);
    const bool waits = settings_.stop_when.loss_below > 0 || settings_.stop_when.no_improvement > 0;
    if (news) {
      out->Say(absl::StrCat("version ", evaluation_->version(),
                            ": nobody has held data out, so it has no validation loss",
                            waits ? ", which [stop_when] waits for" : ""));
    }
    return evaluation_.reset();
  }
  const v1::EvaluationRecord record = evaluation_->Record();
  evaluation_.reset();
  ledger->AddEvaluation(record, &out->update);
  out->Say(absl::StrCat("version ", record.version(), ": validation loss ",
                        LossText(record.loss(), LossUnit(ledger->spec())), OwnLossText(record)),
           RunOutput::Severity::kRecord);
}

void Ending::TakeBack(const std::string& peer) {
  if (evaluation_) evaluation_->TakeBack(peer);
}

void Ending::LoseWorker(const std::string& peer) {
  if (evaluation_) evaluation_->LoseWorker(peer);
}

// A connected trainer may get a worker again and find the loss; without trainers the run waits
// anyway.
bool Ending::Judged(absl::Time now, Ledger* ledger, const Members& members, const Round& round,
                    RunOutput* out, std::string* reason) {
  const uint64_t version = ledger->version();
  if (ledger->Evaluated(version) || unjudged_ == version) return true;
  const auto& all = members.roster().members();
  const bool somebody = std::any_of(all.begin(), all.end(), [](const auto& entry) {
    return entry.second.connected() && entry.second.present() && !entry.second.aggregator;
  });
  const std::set<std::string> holders =
      evaluation_ ? evaluation_->Holders() : std::set<std::string>();
  if (!somebody || members.roster().in_grace(now)) {
    hopeful_ = now;
  } else if (evaluation_) {
    hopeful_ = std::max(hopeful_, evaluation_->last_life());
  }
  hopeful_ = std::max(hopeful_, last_reached_);
  const absl::Duration patience = Patience(round);
  if (!holders.empty()) {
    *reason = absl::StrCat("waiting for ", absl::StrJoin(holders, ", "),
                           " to evaluate the last version; a peer that shows no sign of life for ",
                           absl::FormatDuration(patience), " is not waited for");
  } else {
    *reason = absl::StrCat(
        "no peer is here to evaluate the last version",
        late_.empty() ? "" : absl::StrCat("; ", absl::StrJoin(late_, ", "), " did not in time"));
  }
  const bool hopeless = holders.empty() && now >= hopeful_ + patience;
  if (!hopeless || Planted(PlantedBug::kEvaluationWaitedFor)) return false;
  unjudged_ = version;
  evaluation_.reset();
  out->Say(absl::StrCat("version ", version, ": nobody evaluates it",
                        late_.empty() ? ""
                                      : absl::StrCat(" (", absl::StrJoin(late_, ", "),
                                                     " let the time for it pass)"),
                        "; the run is sealed without its loss"),
           RunOutput::Severity::kWarning);
  reason->clear();
  return true;
}

void Ending::Advance(absl::Time now, Ledger* ledger, Members* members, const Round& round,
                     RunOutput* out, std::string* reason) {
  const uint64_t version = ledger->version();
  if (last_reached_ == absl::InfiniteFuture()) last_reached_ = now;
  Evaluate(now, version, ledger, *members, round, out);
  if (!Judged(now, ledger, *members, round, out, reason)) return;
  const Roster& roster = members->roster();
  if (roster.in_grace(now)) return;
  Holders all;
  Holders voters;
  const std::set<absl::string_view> voted = VotersOf(*ledger);
  std::vector<std::string> missing;
  for (const auto& [peer, info] : members->infos()) {
    if (!info.Reported(version)) continue;
    all[info.state_digest].push_back(peer);
    if (!ledger->header() || voted.count(peer) > 0) voters[info.state_digest].push_back(peer);
  }
  for (const auto& [peer, member] : roster.members()) {
    const PeerInfo* info = members->FindInfo(peer);
    const bool reported = info != nullptr && info->Reported(version);
    if (!reported && member.present() && member.has_state) missing.push_back(peer);
  }
  const bool waited = missing.empty() || now >= last_reached_ + settings_.failure_timeout;
  const size_t needed = VotersNeeded(*ledger, *members);
  const std::string agreed = Agreed(*ledger, voters, needed);
  if (agreed.empty() || !waited) {
    *reason = WhatIsMissing(*ledger, voters, needed, missing);
    if (waited) AskAgain(now, version, voters, *members, out);
    return;
  }
  Seal(now, agreed, all, ledger, members, out);
  AdvanceSealed(now, *ledger, members, out, reason);
}

// Returns the quorum among the peers that made the last version. If only some peers are drawn, or
// updates are dropped, this may be less than the run's quorum.
size_t Ending::Quorum(const Ledger& ledger) const {
  const size_t quorum = settings_.round.quorum;
  const Participation parties(ledger.spec());
  if (!ledger.header() || (!parties.draws() && !parties.drops())) return quorum;
  return std::min(quorum, static_cast<size_t>(ledger.header()->contributors_size()));
}

// Returns how many of the peers that voted for the last version must hold the same digest: a
// quorum, minus the peers that left or were evicted before they reported theirs.
size_t Ending::VotersNeeded(const Ledger& ledger, const Members& members) const {
  size_t needed = Quorum(ledger);
  if (!ledger.header()) return needed;
  for (const v1::Contributor& voter : ledger.header()->contributors()) {
    const RosterMember* const member = members.roster().Find(voter.peer());
    const PeerInfo* const info = members.FindInfo(voter.peer());
    const bool gone = member == nullptr || member->state == MemberState::kLeft ||
                      member->state == MemberState::kEvicted;
    const bool reported = info != nullptr && info->Reported(ledger.version());
    if (gone && !reported && needed > 1) --needed;
  }
  return needed;
}

// Returns the digest that at least `needed` voters hold, and that more voters hold than any other
// digest. If fewer than a quorum are needed, all remaining voters must hold it. Returns an empty
// string if there is none yet.
std::string Ending::Agreed(const Ledger& ledger, const Holders& voters, size_t needed) const {
  if (ledger.version() == 0 && !ledger.genesis()->state_digest().empty()) {
    return ledger.genesis()->state_digest();
  }
  if (needed < Quorum(ledger) && voters.size() > 1) return "";
  std::string agreed;
  size_t most = 0;
  for (const auto& [digest, peers] : voters) {
    if (peers.size() == most) agreed.clear();
    if (peers.size() <= most) continue;
    most = peers.size();
    agreed = most >= needed ? digest : "";
  }
  return agreed;
}

std::string Ending::WhatIsMissing(const Ledger& ledger, const Holders& voters, size_t needed,
                                  const std::vector<std::string>& missing) const {
  size_t most = 0;
  std::set<std::string> reported;
  for (const auto& [digest, peers] : voters) {
    most = std::max(most, peers.size());
    reported.insert(peers.begin(), peers.end());
  }
  std::set<std::string> awaited(missing.begin(), missing.end());
  if (ledger.header()) {
    for (const v1::Contributor& voter : ledger.header()->contributors()) {
      if (most < needed && reported.count(voter.peer()) == 0) {
        awaited.insert(voter.peer());
      }
    }
  }
  if (awaited.empty() && voters.size() > 1) {
    return absl::StrCat("those that voted for the last version hold different states: ", most,
                        " hold the same, ", needed, " must; they are looking again");
  }
  return absl::StrCat("waiting for the digest of the last version from ",
                      awaited.empty() ? "a peer" : absl::StrJoin(awaited, ", "));
}

// Asks the voters to compute their digests again. The fault may be in their memory, because the
// contents of their disks were checked at every step.
void Ending::AskAgain(absl::Time now, uint64_t version, const Holders& voters,
                      const Members& members, RunOutput* out) {
  if (voters.size() < 2 || now < asked_again_ + settings_.failure_timeout) return;
  asked_again_ = now;
  for (const auto& [digest, peers] : voters) {
    for (const std::string& peer : peers) {
      v1::CoordinatorMessage message;
      message.mutable_check_state()->set_version(version);
      members.SendTo(peer, std::move(message), out);
    }
  }
}

void Ending::Seal(absl::Time now, const std::string& agreed, const Holders& holders, Ledger* ledger,
                  Members* members, RunOutput* out) {
  const uint64_t version = ledger->version();
  const auto right = holders.find(agreed);
  for (const auto& [digest, peers] : holders) {
    if (digest == agreed) continue;
    out->Say(absl::StrCat(
                 "version ", version, ": ", absl::StrJoin(peers, ", "), " hold another state than ",
                 right == holders.end() ? "the genesis" : absl::StrJoin(right->second, ", ")),
             RunOutput::Severity::kError);
  }
  v1::Seal seal;
  seal.set_run_id(ledger->spec().run_id());
  seal.set_version(version);
  seal.set_state_digest(agreed);
  seal.set_header_digest(ledger->digest());
  if (settings_.sign_seal) seal.set_signature(settings_.sign_seal(seal));
  ledger->SetSeal(seal, &out->update);
  sealed_at_ = now;
  v1::CoordinatorMessage message;
  *message.mutable_sealed()->mutable_seal() = seal;
  members->SendToAll(std::move(message), out);
  members->news().Insist();  // the roster names the peers that are waited for
  out->Say(absl::StrCat("the run is sealed at version ", version));
}

void Ending::AdvanceSealed(absl::Time now, const Ledger& ledger, Members* members, RunOutput* out,
                           std::string* reason) {
  const v1::Seal& seal = *ledger.seal();
  const bool somebody = members->AnybodyConnected();
  seen_since_seal_ = seen_since_seal_ || somebody;
  const absl::Duration patience =
      StateDeadline(ledger.genesis()->manifest().elements(), 0, settings_.failure_timeout);
  for (const std::string& peer : members->StopAwaiting(now, seal, patience)) {
    out->Say(absl::StrCat("peer ", peer, " has not come to version ", seal.version(), " in ",
                          absl::FormatDuration(patience),
                          " since the run was sealed: no peer waits for it any more"),
             RunOutput::Severity::kWarning);
  }
  const std::vector<std::string> awaited = members->Awaited(seal);
  if (!awaited.empty()) {
    *reason =
        absl::StrCat("the run is sealed, but ", absl::StrJoin(awaited, ", "),
                     awaited.size() == 1 ? " does" : " do", " not hold version ", seal.version(),
                     " yet; each is waited for ", absl::FormatDuration(patience), " at most");
  }
  const bool over = awaited.empty() && ((seen_since_seal_ && !somebody) ||
                                        now >= sealed_at_ + settings_.failure_timeout);
  if (!over || finished_) return;
  finished_ = true;
  out->finished = true;
}

void Ending::OnHistoryAdopted(uint64_t version) {
  if (evaluation_ && evaluation_->version() != version) evaluation_.reset();
  last_reached_ = absl::InfiniteFuture();
  unjudged_.reset();
}

}  // namespace atolld
