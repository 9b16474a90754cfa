#include "membership/run/entry_attempts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/planted_bug.h"
#include "compression/base/words.h"
#include "membership/history/agreement.h"
#include "membership/history/fragment.h"
#include "membership/history/run_mode.h"
#include "membership/planning/arrival_log.h"
#include "membership/planning/message_sizes.h"
#include "membership/run/admission.h"
#include "membership/run/utilisation.h"
#include "membership/trust/audit.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

// Keeps only as many contributors as an entry has room for.
void KeepWhoFit(const v1::Genesis& genesis, const Round& round,
                std::vector<ExchangeContributor>* contributors) {
  std::vector<uint32_t> ages;
  for (const ExchangeContributor& one : *contributors) {
    ages.push_back(round.Find(one.member.peer())->ready.age());
  }
  std::vector<ExchangeContributor> kept;
  const uint64_t most = std::max<uint64_t>(1, MostPeers(SizeTermsOf(genesis, 0)));
  for (const size_t i : WhoFits(ages, most)) {
    kept.push_back(std::move((*contributors)[i]));
  }
  *contributors = std::move(kept);
}

// A window that shows a rate must carry this share of the vector, and at least some chunks. Frames
// arrive whole, so in a shorter window the rate would depend on where it begins.
constexpr double kWindowShare = 1.0 / 8;
constexpr double kWindowChunks = 2;
// The opening needs more chunks: with fewer, three streams that end a chunk at once would look like
// a fast line.
constexpr double kOpeningChunks = 16;

constexpr size_t kExchangeTimes = 16;  // the number of times that are remembered for the prediction

// The rounds for which a peer that others could not reach is not asked to reduce.
constexpr uint64_t kSparedRounds = 8;

// A peer's loss is suspicious if it is far above those of the others: its data is different, or it
// computes wrongly. Parties whose data honestly differs are some tenths apart. Shuffled labels, or
// bytes that are noise, stay near the loss of guessing, which is several times that of a trained
// model.
constexpr double kLossFactor = 2;
constexpr double kLossDistance = 1;  // in nats: a tiny loss that has doubled is still tiny
// With only two losses that differ, it is unknown which one is right.
constexpr size_t kLeastToCompare = 3;

std::set<std::string> LossesFarAbove(const std::map<std::string, v1::Ready>& contributions) {
  std::set<std::string> apart;
  std::vector<double> losses;
  for (const auto& [peer, ready] : contributions) {
    if (std::isfinite(ready.loss())) losses.push_back(ready.loss());
  }
  std::sort(losses.begin(), losses.end());
  double limit = std::numeric_limits<double>::max();
  if (losses.size() >= kLeastToCompare) {
    const double usual = losses[(losses.size() - 1) / 2];
    limit = std::max(kLossFactor * usual, usual + kLossDistance);
  }
  for (const auto& [peer, ready] : contributions) {
    if (!(ready.loss() <= limit)) apart.insert(peer);
  }
  return apart;
}

void SayOffences(uint64_t version, const std::vector<std::string>& lines, RunOutput* out) {
  for (const std::string& line : lines) {
    out->Say(absl::StrCat("round ", version, ": ", line), RunOutput::Severity::kWarning);
  }
}

// In a run without private data these are the leased samples, which the Ready contains by now.
uint64_t SamplesOf(const v1::Ready& ready) {
  uint64_t samples = 0;
  for (const v1::SampleRange& range : ready.samples()) samples += range.count();
  return samples;
}

// Applies the scales of the rules of a federation, in addition to those of the judge.
void ScaleByRules(const v1::RunSpec& spec, const Round& round,
                  std::vector<ExchangeContributor>* contributors) {
  if (!spec.has_federation()) return;
  std::vector<WeighedUpdate> updates;
  for (const ExchangeContributor& contributor : *contributors) {
    const v1::PlanMember& member = contributor.member;
    const v1::Ready& ready = round.Find(member.peer())->ready;
    const double clip =
        member.scale_bits() == 0 ? 1 : double{absl::bit_cast<float>(member.scale_bits())};
    WeighedUpdate& update = updates.emplace_back();
    update.weight = double{absl::bit_cast<float>(member.weight_bits())};
    update.steps = ready.steps() / std::max(1.0, static_cast<double>(ready.parties()));
    update.squared_norm = clip * clip * absl::bit_cast<double>(member.squared_norm_bits());
    update.loss = ready.base_loss();
  }
  const std::vector<double> scales = FederationScales(spec, updates);
  for (size_t i = 0; i < scales.size(); ++i) {
    v1::PlanMember& member = (*contributors)[i].member;
    const double clip =
        member.scale_bits() == 0 ? 1 : double{absl::bit_cast<float>(member.scale_bits())};
    const auto scale = static_cast<float>(clip * scales[i]);
    member.set_scale_bits(scale == 1.0f ? 0 : absl::bit_cast<uint32_t>(scale));
  }
}

// Returns the aggregators that may reduce. Sets `lacking`, which may be nullptr, to what the
// unavailable ones wait for, in words. In a run with masks there are none, because every voter must
// take the masks off.
std::vector<ExchangeAggregator> AggregatorsFor(absl::Time now, const Round& round,
                                               const Ledger& ledger, Members* members,
                                               std::string* lacking) {
  std::string why;
  std::vector<ExchangeAggregator> aggregators = members->Aggregators(now, round.version(), &why);
  if (ledger.spec().privacy().masked()) {
    why = aggregators.empty() ? "" : "; aggregators do not reduce updates with masks";
    aggregators.clear();
  }
  if (lacking != nullptr) *lacking = std::move(why);
  return aggregators;
}

// Returns true if the run has one peer and there is no other peer for which it could wait instead.
bool MayCommitAlone(const std::string& peer, const Round& round, const Ledger& ledger,
                    const Members& members) {
  return round.alone() && !members.AnotherHolds(peer, ledger.version());
}

// Returns the rates of the peers' lines up, as far as they are known. The measured rate of a line
// that had room is not used, because the line was seen to carry only as much as was asked of it.
std::map<std::string, double> RatesUp(const std::vector<KnownPeer>& peers,
                                      const LinkEstimates& estimates) {
  std::map<std::string, double> rates;
  for (const KnownPeer& one : peers) {
    const double seen = estimates.HadRoom(one.peer) ? 0 : estimates.Up(one.peer);
    const bool both = seen > 0 && one.up_rate > 0;
    rates[one.peer] = both ? std::min(seen, one.up_rate) : std::max(seen, one.up_rate);
  }
  return rates;
}

std::string Megabits(double bytes_per_second) {
  return absl::StrFormat("%.1f Mbit/s", 8e-6 * bytes_per_second);
}

void SaySlowLines(const v1::ExchangeSpec& exchange, const std::vector<SlowLines::Change>& changes,
                  RunOutput* out) {
  if (exchange.slow_codec().empty()) return;
  for (const SlowLines::Change& change : changes) {
    out->Say(absl::StrCat("peer ", change.peer, " sends its updates in ",
                          change.slow ? exchange.slow_codec() : exchange.codec(),
                          " from its next training on: its line carries ", Megabits(change.rate),
                          " up, the median ", Megabits(change.median)));
  }
}

// The most attempts for which the averaging peer is remembered. It is more than the number of peers
// with failing lines in any run.
constexpr size_t kMostSilent = 64;

// Returns the peer that averages everything, or "" if several do.
std::string StarOf(const v1::Plan& plan) {
  std::string star;
  for (const v1::Shard& shard : plan.shards()) {
    if (shard.chunks() == 0) continue;
    if (!star.empty() && shard.reducer() != star) return "";
    star = shard.reducer();
  }
  return star;
}

}  // namespace

std::string ExchangePlanner::Plan(const Roster& roster, const EncodedSize& size,
                                  ExchangeTerms* terms,
                                  std::vector<ExchangeContributor>* contributors) {
  const std::vector<bool> reduces = WhoReduces(*terms, *contributors);
  if (std::find(reduces.begin(), reduces.end(), true) == reduces.end()) {
    chosen_ = ChosenPlan();  // aggregators do all the averaging, and their lines are not measured
    counted_on_.clear();
    links_.clear();
    return "";
  }
  std::vector<KnownPeer> peers;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const RosterMember& member = *roster.Find((*contributors)[i].member.peer());
    peers.push_back({member.peer, member.region, static_cast<double>(member.up_rate),
                     static_cast<double>(member.down_rate), reduces[i], (*contributors)[i].slow});
  }
  slow_changes_ = slow_lines_.Update(RatesUp(peers, estimates_));
  vector_bytes_ = std::max(size.update_bytes, size.mean_bytes);
  chunks_ = static_cast<uint32_t>((terms->parameters + terms->chunk_elements - 1) /
                                  terms->chunk_elements);
  const std::optional<LinkModel> links = estimates_.Model(peers);
  counted_on_ = links ? CountedOn(*links) : std::vector<v1::LinkStatus>();
  links_ = LinksToTell(counted_on_, estimates_);
  chosen_ = choice_.Choose(links ? &*links : nullptr, reduces, size, chunks_);
  terms->by_region = ByRegion(chosen_.shape);
  terms->grouping = chosen_.grouping;
  for (size_t i = 0; i < reduces.size(); ++i) {
    ExchangeContributor& contributor = (*contributors)[i];
    contributor.has_shard = chosen_.bandwidths[i] > 0;
    if (contributor.has_shard) {
      contributor.bandwidth = chosen_.bandwidths[i];
    } else if (reduces[i] && links && Weighted(chosen_.shape)) {
      // This bandwidth is used to compare it with the others when one of them is lost.
      contributor.bandwidth = std::min(links->peers()[i].up, links->peers()[i].down);
    }
  }
  return chosen_.change;
}

void ExchangePlanner::NoteVote(const Ballot& exchange, const std::string& peer,
                               const v1::Vote& vote, absl::Duration since_plan) {
  const v1::Plan& plan = exchange.plan();
  const bool of_first_plan = vote.version() == plan.version() && vote.epoch() == plan.epoch() &&
                             vote.revision() == 1 && exchange.Contributes(peer);
  if (!of_first_plan || !vote.has_arrivals()) return;
  const auto there = static_cast<double>(vote.arrivals().sent_microseconds());
  estimates_.NoteCoordinator(peer, since_plan - absl::Microseconds(there));
}

void ExchangePlanner::NoteEnd(const Roster& roster, const Ballot& exchange, absl::Duration time) {
  const v1::Plan& plan = exchange.plan();
  choice_.NoteSeconds(absl::ToDoubleSeconds(time), plan.revision() != 1);
  const auto contributors = static_cast<size_t>(plan.contributors_size());
  if (plan.revision() != 1 || contributors > ArrivalLog::kMostPeers) return;
  if (chosen_.bandwidths.empty()) return;
  std::vector<ExchangeWitness> witnesses;
  for (const v1::PlanMember& member : plan.contributors()) {
    const auto vote = exchange.votes().find(member.peer());
    const RosterMember* known = roster.Find(member.peer());
    if (vote == exchange.votes().end() || !vote->second.has_arrivals() || known == nullptr) return;
    witnesses.push_back({member.peer(), known->region, &vote->second.arrivals()});
  }
  const double chunk_bytes = vector_bytes_ / chunks_;
  const double least = std::max(kWindowShare * vector_bytes_, kWindowChunks * chunk_bytes);
  if (!estimates_.Note(witnesses, least, kOpeningChunks * chunk_bytes)) return;
  choice_.NoteArrived(estimates_.arrived_updates(), estimates_.arrived_means());
  links_ = LinksToTell(counted_on_, estimates_);
}

// -----------------------------------------------------------------------------------------------

EntryAttempts::EntryAttempts(const RunSettings& settings, const Ledger& ledger,
                             const JudgeRecord& judged)
    : settings_(settings),
      brief_plans_(!ledger.spec().privacy().masked()),
      times_(kExchangeTimes),
      planner_(settings.plan),
      judge_(settings.judge, judged),
      noise_(ledger.spec().exchange(), ledger.rounds(), ledger.spec().privacy(),
             HasExperts(ledger.spec())) {
  for (const v1::RoundRecord& round : ledger.rounds()) {
    if (round.exchange_seconds() > 0) times_.Add(absl::Seconds(round.exchange_seconds()));
  }
}

EntryAttempts::Candidates EntryAttempts::Choose(absl::Time now, const v1::RunSpec& spec,
                                                const Round& round, Members* members, bool all) {
  const Roster& roster = std::as_const(*members).roster();
  std::vector<ExchangeContributor> ready_ones;
  for (const std::string& peer : round.Ready(roster)) {
    const v1::Ready& ready = round.Find(peer)->ready;
    const PeerInfo& info = members->info(peer);
    ExchangeContributor contributor;
    contributor.member = PlanMemberOf(peer, roster.Find(peer)->address, info.signing_key, ready);
    experts_.Limit(ready, &contributor);
    contributor.may_reduce = info.spared_until < round.version();
    contributor.dialled_in_vain = now < info.dialled_in_vain_until;
    contributor.region = roster.Find(peer)->region;
    // A reducer may lack the centre, such as an aggregator that started from a snapshot. After a
    // failed attempt everything is therefore measured from zeros.
    if (given_up_ > 0) contributor.member.clear_squared_distance_bits();
    contributor.age = ready.age();
    ready_ones.push_back(std::move(contributor));
  }
  Candidates candidates;
  std::vector<ExchangeContributor>& contributors = candidates.contributors;
  for (const size_t i : judge_.Choose(ready_ones, round.fewest())) {
    contributors.push_back(std::move(ready_ones[i]));
  }
  if (!all) LeaveOut(now, round, members, &contributors);
  std::vector<double> unheld;
  std::vector<uint32_t> ages;
  for (const ExchangeContributor& contributor : contributors) {
    const v1::Ready& ready = round.Find(contributor.member.peer())->ready;
    unheld.push_back(ContributionWeight(spec, ready, SamplesOf(ready)));
    ages.push_back(contributor.age);
  }
  std::vector<float> weights = HeldWeights(unheld);
  CapWeights(settings_.weight_cap, &weights);
  WeighAges(spec, ages, &weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    contributors[i].member.set_weight_bits(absl::bit_cast<uint32_t>(weights[i]));
  }
  for (const std::string& peer : judge_.Scale(&contributors)) {
    candidates.outsized.push_back(peer);
    contributors.erase(std::find_if(contributors.begin(), contributors.end(),
                                    [&](const auto& one) { return one.member.peer() == peer; }));
  }
  ScaleByRules(spec, round, &contributors);
  return candidates;
}

std::vector<std::string> EntryAttempts::NotAwaited(const Members& members) const {
  std::vector<std::string> peers = judge_.Offenders();
  if (members.reach().doubts().empty()) return peers;
  for (const auto& [peer, member] : members.roster().members()) {
    if (members.reach().CutOff(peer) &&
        std::find(peers.begin(), peers.end(), peer) == peers.end()) {
      peers.push_back(peer);
    }
  }
  return peers;
}

absl::Status EntryAttempts::Reducible(absl::Time now,
                                      const std::vector<ExchangeContributor>& contributors,
                                      const Round& round, const Ledger& ledger,
                                      Members* members) const {
  std::string lacking;
  const std::vector<ExchangeAggregator> aggregators =
      AggregatorsFor(now, round, ledger, members, &lacking);
  const bool may_be_alone =
      MayCommitAlone(contributors.front().member.peer(), round, ledger, *members);
  const absl::Status reducible = Ballot::Reducible(contributors, may_be_alone, aggregators);
  if (reducible.ok()) return reducible;
  return absl::FailedPreconditionError(absl::StrCat(reducible.message(), lacking));
}

absl::Status EntryAttempts::Begin(absl::Time now, std::vector<ExchangeContributor> contributors,
                                  const Round& round, const Ledger& ledger, Members* members,
                                  RunOutput* out) {
  contributions_.clear();
  const size_t offered = contributors.size();
  KeepWhoFit(*ledger.genesis(), round, &contributors);
  if (contributors.size() < offered) {
    out->Say(absl::StrCat(
        "round ", round.version(), ": ", Counted(contributors.size(), "update"), " of ", offered,
        " fit its messages; ",
        IsStreaming(ledger.spec()) ? "the others train anew" : "the others count in the next"));
  }
  for (ExchangeContributor& contributor : contributors) {
    const std::string& peer = contributor.member.peer();
    contributions_[peer] = round.Find(peer)->ready;
    contributor.slow = contributions_[peer].slow_codec();
  }
  const absl::Status reducible = Reducible(now, contributors, round, ledger, members);
  if (!reducible.ok()) return reducible;
  ExchangeTerms terms;
  terms.aggregators = AggregatorsFor(now, round, ledger, members, nullptr);
  SpareInDoubt(now, round, *members, &terms.aggregators, &contributors);
  terms.version = round.version();
  terms.epoch = ledger.epoch();
  terms.doubts = Doubts(round.version(), *members);
  known_doubts_ = terms.doubts;
  terms.parameters = experts_.Elements(ledger, round.version());
  terms.chunk_elements = ledger.spec().exchange().chunk_elements();
  experts_.Fill(ledger, &terms);
  terms.quorum = static_cast<uint32_t>(round.quorum());
  const std::string change =
      planner_.Plan(std::as_const(*members).roster(), settings_.encoded_size(terms.parameters),
                    &terms, &contributors);
  if (!change.empty()) out->Say(absl::StrCat("round ", round.version(), ": ", change));
  SaySlowLines(ledger.spec().exchange(), planner_.TakeSlowChanges(), out);
  terms.audit_share = absl::bit_cast<float>(ledger.spec().exchange().audit_share_bits());
  terms.previous_header_digest = ledger.digest();
  terms.draw_nonce = settings_.draw_nonce;
  terms.deadline = ExchangeDeadline(times_, terms.parameters, given_up_, settings_.failure_timeout);
  if (terms.version == 1) terms.state_digest = ledger.genesis()->state_digest();
  current_ = std::make_unique<Ballot>(terms, std::move(contributors));
  began_ = now;
  // The roster is sent before the plan, because peers refuse a plan that names unknown peers.
  members->news().Hurry();
  members->SendRosterIfDue(now, ledger.seal(), out);
  SendPlans(now, *members, out);
  return absl::OkStatus();
}

// Sends the plan to one peer. A peer that averages checks all updates, so it needs the whole plan;
// for the others a brief one is enough.
void EntryAttempts::SendPlan(const std::string& peer, const Members& members, RunOutput* out) {
  const PeerInfo* const info = members.FindInfo(peer);
  const bool takes_brief = brief_plans_ && (info == nullptr || info->follows_changes);
  if (told_->servers().count(peer) > 0 || !takes_brief) return SendWhole(peer, members, out);
  v1::CoordinatorMessage message;
  *message.mutable_plan() = told_->For(peer);
  members.SendTo(peer, std::move(message), out);
}

void EntryAttempts::SendWhole(const std::string& peer, const Members& members, RunOutput* out) {
  if (whole_ == nullptr) {
    v1::CoordinatorMessage message;
    *message.mutable_plan() = current_->plan();
    whole_ = std::make_shared<const v1::CoordinatorMessage>(std::move(message));
  }
  members.SendTo(peer, whole_, out);
}

void EntryAttempts::SendPlans(absl::Time now, const Members& members, RunOutput* out) {
  agreed_at_ = absl::InfiniteFuture();
  deadline_ = now + absl::Milliseconds(current_->plan().deadline_milliseconds());
  whole_ = nullptr;
  told_.emplace(current_->plan());
  judge_.NotePlan(current_->plan());
  for (const std::string& peer : current_->Voters()) SendPlan(peer, members, out);
}

void EntryAttempts::SendAudit(const std::string& peer, const v1::Audit& order,
                              const Members& members, RunOutput* out) {
  // The auditor checks the updates of the others.
  if (told_->servers().count(peer) == 0) SendWhole(peer, members, out);
  for (v1::Audit& page : InPages(order)) {
    v1::CoordinatorMessage message;
    *message.mutable_audit() = std::move(page);
    members.SendTo(peer, std::move(message), out);
  }
}

void EntryAttempts::SendAudits(const Members& members, RunOutput* out) {
  for (const auto& [peer, order] : current_->TakeAuditOrders()) {
    SendAudit(peer, order, members, out);
  }
}

void EntryAttempts::Resend(const std::string& peer, const Members& members, RunOutput* out) {
  if (!current_->Votes(peer)) return;
  SendPlan(peer, members, out);
  const std::optional<v1::Audit> order = current_->AuditOrderOf(peer);
  if (order) SendAudit(peer, *order, members, out);
}

void EntryAttempts::Postpone(absl::Time now) {
  deadline_ = now + absl::Milliseconds(current_->plan().deadline_milliseconds());
}

void EntryAttempts::NoteAudit(absl::Time now) {
  agreed_at_ = std::min(agreed_at_, now);
  deadline_ = now + current_->AuditPatience();
}

void EntryAttempts::NoteRefused(const v1::UpdateRefused& refused, RunOutput* out) {
  const std::string& peer = refused.contributor();
  const auto found = contributions_.find(peer);
  if (found != contributions_.end()) refused_[peer] = found->second.contribution_root();
  if (current_ != nullptr) current_->NoteUseless(peer);
  out->Say(absl::StrCat("round ", refused.version(), ": the update of peer ", peer,
                        " was refused where it was averaged: chunk ", refused.chunk(), ": ",
                        refused.reason().substr(0, 200)),
           RunOutput::Severity::kWarning);
}

absl::Status EntryAttempts::CheckReady(const Ledger& ledger, const std::string& peer,
                                       const v1::Ready& ready) {
  const auto found = refused_.find(peer);
  if (found != refused_.end() && found->second == ready.contribution_root()) {
    return absl::InvalidArgumentError("it was refused where it was averaged");
  }
  const absl::Status owned = experts_.Check(ledger, peer, ready);
  if (!owned.ok()) return owned;
  return judge_.Check(ready, experts_.Elements(ledger, ready.version()));
}

void EntryAttempts::NoteVote(absl::Time now, const std::string& peer, const v1::Vote& vote) {
  planner_.NoteVote(*current_, peer, vote, now - began_);
}

v1::EntryHeader EntryAttempts::Decide(const Ledger& ledger, const LeaseBook& leases,
                                      uint64_t run_parties) {
  last_ = std::move(current_);
  // The samples on which the peer says that it has trained the update. They were checked when it
  // was offered.
  const auto samples = [&](const std::string& peer) {
    const auto& named = contributions_.at(peer).samples();
    LeaseBook::Ranges spent =
        named.empty() ? leases.Held(peer) : LeaseBook::Ranges(named.begin(), named.end());
    if (Planted(PlantedBug::kAheadSpendsBoth)) {
      for (const v1::SampleRange& range : leases.Held(AheadHolder(peer))) spent.push_back(range);
    }
    return spent;
  };
  const auto parties = [&](const std::string& peer) -> uint32_t {
    const uint32_t told = contributions_.at(peer).parties();
    return told > 1 ? told : 0;
  };
  HeaderTerms terms = {ledger.spec(),  settings_.scalars, ledger.digest(), samples,
                       last_->nonce(), parties,           run_parties};
  terms.age = [&](const std::string& peer) { return contributions_.at(peer).age(); };
  terms.squared_mean = ToldSquaredMean(last_->agreement(), last_->votes());
  terms.previous = ledger.header() ? &*ledger.header() : nullptr;
  terms.base = [&](const std::string& peer) { return contributions_.at(peer).base_version(); };
  if (!ledger.spec().exchange().slow_codec().empty()) {
    terms.slow_codec = [&](const std::string& peer) {
      return contributions_.at(peer).slow_codec();
    };
  }
  return MakeHeader(terms, last_->plan(), last_->agreement());
}

v1::RoundRecord EntryAttempts::NoteCommit(absl::Time now, const v1::EntryHeader& header,
                                          const Ledger& ledger, Members* members, RunOutput* out) {
  v1::RoundRecord record = RecordRound(now, header, ledger);
  noise_.NoteCommit(last_->plan(), last_->agreement(), last_->votes(), &record);
  record.set_revisions(last_->plan().revision());
  const absl::Duration exchanged = std::min(agreed_at_, now) - began_;
  times_.Add(exchanged);
  given_up_ = 0;
  planner_.NoteEnd(std::as_const(*members).roster(), *last_, exchanged);
  NoteComplaints(header.version(), *last_, members);
  SayOffences(header.version(), judge_.NoteCommit(header), out);
  out->update.judged = judge_.Record();
  const std::set<std::string> far_above = LossesFarAbove(contributions_);
  for (const v1::Contributor& contributor : header.contributors()) {
    const v1::Ready& ready = contributions_.at(contributor.peer());
    if (far_above.count(contributor.peer()) > 0) ++members->info(contributor.peer()).data_refused;
    members->info(contributor.peer()).utilisation = UtilisationOf(ready);
    members->NoteSpeed(contributor.peer(), ready);
    // The length of a masked update is unknown.
    const bool still = ready.squared_norm_bits() == 0 && !ledger.spec().privacy().masked();
    if (still && still_.insert(contributor.peer()).second) {
      out->Say(absl::StrCat("round ", header.version(), ": the update of peer ", contributor.peer(),
                            " has length 0: nothing that it trained has moved, "
                            "so the run learns nothing from it; does its optimiser step a copy of "
                            "the parameters, or is its learning rate 0?"),
               RunOutput::Severity::kWarning);
    }
  }
  contributions_.clear();
  refused_.clear();
  return record;
}

v1::RoundRecord EntryAttempts::RecordRound(absl::Time now, const v1::EntryHeader& header,
                                           const Ledger& ledger) const {
  v1::RoundRecord record;
  record.set_version(header.version());
  record.set_contributors(static_cast<uint32_t>(header.contributors_size()));
  record.set_elapsed_seconds(ledger.Elapsed(now));
  ledger.budget().Measure(header, contributions_, &record);
  const absl::Time agreed = std::min(agreed_at_, now);
  record.set_exchange_seconds(absl::ToDoubleSeconds(agreed - began_));
  record.set_audit_seconds(absl::ToDoubleSeconds(now - agreed));
  const ChosenPlan& chosen = planner_.chosen();
  record.set_plan(std::string(PlanShapeName(chosen.shape)));
  if (chosen.prediction) record.set_predicted_seconds(chosen.prediction->seconds);
  double loss = 0;
  // Only losses that are numbers count, because a single NaN would spoil the mean.
  double loss_tokens = 0;
  double seconds = 0;
  uint64_t tokens = 0;
  uint32_t parties = 0;
  bool hosted = false;  // true if one peer hosts several parties
  for (const v1::Contributor& contributor : header.contributors()) {
    parties += std::max<uint32_t>(1, contributor.parties());
    hosted = hosted || contributor.parties() > 1;
    const v1::Ready& ready = contributions_.at(contributor.peer());
    const auto own_tokens = static_cast<double>(ready.tokens());
    if (std::isfinite(ready.loss())) {
      loss += ready.loss() * own_tokens;
      loss_tokens += own_tokens;
    }
    seconds += ready.train_seconds();
    const std::optional<v1::Utilisation> used = UtilisationOf(ready);
    if (used) AddUtilisation(*used, record.mutable_utilisation());
    tokens += ready.tokens();
  }
  record.set_tokens(tokens);
  if (hosted) record.set_parties(parties);
  record.set_train_loss(loss_tokens > 0 && std::isfinite(loss) ? loss / loss_tokens : 0);
  record.set_train_seconds(seconds / std::max(1, header.contributors_size()));
  return record;
}

// Returns true if the exchange began with this doubt.
bool EntryAttempts::IsKnown(const std::string& accuser, const std::string& accused) const {
  const auto known = known_doubts_.find(accused);
  return known != known_doubts_.end() && known->second.count(accuser) > 0;
}

// A peer with results that had too few contributors does not reduce for a while. Neither does a
// reducer about which contributors complain. If only one contributor complains, it does not reduce
// either, so it gains nothing by the complaint. Reach keeps the dials without an answer as long as
// they are repeated.
void EntryAttempts::NoteComplaints(uint64_t version, const Ballot& exchange, Members* members) {
  const uint64_t until = version + kSparedRounds;
  for (auto& [accused, complaints] : complaints_) {
    for (auto it = complaints.begin(); it != complaints.end();) {
      it = it->second < version ? complaints.erase(it) : std::next(it);
    }
  }
  for (const std::string& peer : exchange.distrusted()) members->info(peer).spared_until = until;
  for (const std::string& peer : exchange.thin()) members->info(peer).spared_until = until;
  for (const auto& [accused, accusers] : exchange.accusers()) {
    for (const std::string& accuser : accusers) {
      // What the exchange began with was not found in it: a complaint must not renew itself.
      if (IsKnown(accuser, accused) || members->reach().doubts().InDoubt(accuser, accused))
        continue;
      complaints_[accused][accuser] = until;
    }
  }
  for (const auto& [accuser, accused] : exchange.Unconfirmed()) {
    if (IsKnown(accuser, accused)) continue;
    members->NoteSuspicion(accuser,
                           absl::StrCat("round ", version, ": it alone could not reach ", accused));
  }
}

std::map<std::string, std::set<std::string>> EntryAttempts::Doubts(uint64_t version,
                                                                   const Members& members) const {
  std::map<std::string, std::set<std::string>> doubts = members.reach().doubts().ByAccused();
  for (const auto& [accused, complaints] : complaints_) {
    for (const auto& [accuser, until] : complaints) {
      if (until >= version) doubts[accused].insert(accuser);
    }
  }
  return doubts;
}

Around EntryAttempts::AroundDoubts(absl::Time now, const Round& round, const Members& members,
                                   absl::Span<const ExchangeAggregator> aggregators,
                                   absl::Span<const ExchangeContributor> contributors,
                                   bool all) const {
  const auto doubts = Doubts(round.version(), members);
  AroundQuestion question{contributors, aggregators, doubts, round.fewest(), !all};
  if (given_up_ > 0 || now < silent_until_) question.silent = silent_;
  return PlanAround(question);
}

// Called before the weights are set, because they depend on the contributors.
void EntryAttempts::LeaveOut(absl::Time now, const Round& round, Members* members,
                             std::vector<ExchangeContributor>* contributors) const {
  std::string lacking;
  const auto aggregators = members->Aggregators(now, round.version(), &lacking);
  const Around around =
      AroundDoubts(now, round, *members, aggregators, *contributors, /*all=*/false);
  contributors->erase(
      std::remove_if(contributors->begin(), contributors->end(),
                     [&](const auto& one) { return around.left_out.count(one.member.peer()) > 0; }),
      contributors->end());
}

void EntryAttempts::SpareInDoubt(absl::Time now, const Round& round, const Members& members,
                                 std::vector<ExchangeAggregator>* aggregators,
                                 std::vector<ExchangeContributor>* contributors) const {
  const Around around =
      AroundDoubts(now, round, members, *aggregators, *contributors, /*all=*/true);
  for (ExchangeAggregator& one : *aggregators) {
    if (around.spared.count(one.peer) > 0) one.may_reduce = false;
  }
  for (ExchangeContributor& one : *contributors) {
    if (around.spared.count(one.member.peer()) > 0) one.may_reduce = false;
    if (one.member.peer() == around.alone) one.may_reduce = true;
  }
}

void EntryAttempts::SendDoubts(uint64_t committed, const Members& members, RunOutput* out) const {
  for (const auto& [peer, digest] : current_->Doubted()) {
    v1::CoordinatorMessage message;
    message.mutable_check_state()->set_version(committed);
    message.mutable_check_state()->set_state_digest(digest);
    members.SendTo(peer, std::move(message), out);
  }
}

std::vector<std::string> EntryAttempts::GiveUp(absl::Time now, uint64_t committed, Members* members,
                                               RunOutput* out) {
  const uint64_t version = committed + 1;
  // If the header was not valid, the exchange was decided, but has failed like any other.
  const bool decided = current_ == nullptr;
  if (decided) {
    current_ = std::move(last_);
  } else {
    SendDoubts(committed, *members, out);
  }
  ++given_up_;
  if (current_->silent()) {
    if (given_up_ == 1 && now >= silent_until_) silent_.clear();
    silent_.push_back(StarOf(current_->plan()));
    if (silent_.size() > kMostSilent) silent_.erase(silent_.begin());
    // By then the peers have dialled each other again and have reported the results.
    silent_until_ = now + settings_.failure_timeout;
  }
  NoteComplaints(version, *current_, members);
  for (const auto& [accused, accusers] : current_->accusers()) {
    const bool dialled = std::any_of(accusers.begin(), accusers.end(), [&](const auto& accuser) {
      return !IsKnown(accuser, accused) || members->reach().doubts().InDoubt(accuser, accused);
    });
    if (dialled) members->info(accused).dialled_in_vain_until = now + settings_.failure_timeout;
  }
  for (const std::string& peer : current_->unreachable()) {
    if (!members->reach().doubts().Unreachable(peer)) continue;
    members->info(peer).dialled_in_vain_until = now + settings_.failure_timeout;
  }
  current_.reset();
  SayOffences(version, judge_.NoteGivenUp(), out);
  out->update.judged = judge_.Record();
  std::vector<std::string> contributors;
  for (const auto& [peer, ready] : contributions_) contributors.push_back(peer);
  contributions_.clear();
  return contributors;
}

void EntryAttempts::Show(const std::string& peer, v1::PeerStatus* status) const {
  status->set_up_bytes_per_second(planner_.estimates().Up(peer));
  status->set_down_bytes_per_second(planner_.estimates().Down(peer));
  judge_.Show(peer, status);
}

void EntryAttempts::Tell(const Ledger& ledger, const Round& round, const Roster& roster,
                         const std::string& peer, v1::Train* train) {
  experts_.Tell(ledger, round, roster, peer, train);
  if (ledger.spec().exchange().slow_codec().empty()) return;
  train->set_slow_codec(planner_.slow_lines().Has(peer));
}

void EntryAttempts::Show(v1::RunStatus* status) const {
  *status->mutable_noise() = noise_.Status();
  for (const v1::LinkStatus& link : planner_.links()) *status->add_links() = link;
  experts_.Show(status);
}

void EntryAttempts::Forget(const std::string& peer) {
  planner_.Forget(peer);
  judge_.Forget(peer);
  complaints_.erase(peer);
  still_.erase(peer);
}

}  // namespace atolld
