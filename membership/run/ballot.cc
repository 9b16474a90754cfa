#include "membership/run/ballot.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/bitmap.h"
#include "compression/base/planted_bug.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/digest.h"
#include "membership/history/mean_records.h"
#include "membership/planning/reach.h"

namespace atolld {
namespace {

bool SameBounds(const v1::Shard& shard, const v1::ShardRecord& record) {
  return shard.first_chunk() == record.first_chunk() && shard.chunks() == record.chunks() &&
         shard.reducer() == record.reducer();
}

}  // namespace

absl::Status Ballot::Reducible(absl::Span<const ExchangeContributor> contributors,
                               bool may_be_alone,
                               absl::Span<const ExchangeAggregator> aggregators) {
  if (contributors.size() == 1 && may_be_alone) return absl::OkStatus();  // it reduces for itself
  std::vector<std::string> dial_out;
  std::vector<std::string> in_vain;
  for (const ExchangeContributor& contributor : contributors) {
    const bool dialable = !contributor.member.address().empty();
    if (dialable && (contributors.size() == 1 || !contributor.dialled_in_vain))
      return absl::OkStatus();
    (dialable ? in_vain : dial_out).push_back(contributor.member.peer());
  }
  for (const ExchangeAggregator& aggregator : aggregators) {
    if (!aggregator.dialled_in_vain) return absl::OkStatus();
    in_vain.push_back(aggregator.peer);
  }
  std::string why;
  if (!dial_out.empty()) {
    absl::StrAppend(&why, absl::StrJoin(dial_out, ", "), dial_out.size() == 1 ? " has" : " have",
                    " no address that others can dial");
  }
  if (!in_vain.empty()) {
    absl::StrAppend(&why, why.empty() ? "" : "; ", absl::StrJoin(in_vain, ", "),
                    in_vain.size() == 1 ? " was" : " were",
                    " dialled without success and will be tried again");
  }
  return absl::FailedPreconditionError(absl::StrCat("no reachable reducer: ", why));
}

Ballot::Ballot(ExchangeTerms terms, std::vector<ExchangeContributor> contributors)
    : terms_(std::move(terms)), plan_(terms_, contributors) {
  TakeDoubts();
  DrawNonce();
}

// Counts doubts from before the exchange like reports.
void Ballot::TakeDoubts() {
  for (const auto& [accused, accusers] : terms_.doubts) {
    if (!TakesPart(accused)) continue;
    for (const std::string& accuser : accusers) {
      if (accuser == kCoordinatorDials || TakesPart(accuser)) accusers_[accused].insert(accuser);
    }
    if (accusers_[accused].size() > 1) plan_.MarkUnreachable(accused);
  }
  Shun();
}

void Ballot::Distrust(const std::string& peer) {
  distrusted_.insert(peer);
  plan_.MarkUnreachable(peer);
}

absl::Status Ballot::CheckVote(const std::string& peer, const v1::Vote& vote) const {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", terms_.version, ": vote of peer ", peer, ": ", what));
  };
  if (vote.payload_digest().size() != kDigestBytes)
    return bad("the payload's digest is not 32 bytes");
  if (vote.state_digest().size() != kDigestBytes) return bad("the state's digest is not 32 bytes");
  if (!vote.has_records()) return absl::OkStatus();
  const v1::MeanRecords& records = vote.records();
  if (!FitAVote(records)) return bad("its records are longer than 640 KiB");
  if (records.shards_size() != plan().shards_size())
    return bad("another number of shards than the plan's");
  for (int i = 0; i < records.shards_size(); ++i) {
    if (!SameBounds(plan().shards(i), records.shards(i)))
      return bad(absl::StrCat("shard ", i, " is not the plan's"));
  }
  std::vector<absl::string_view> owned;
  for (const v1::PlanMember& member : plan().contributors()) owned.push_back(member.owned());
  const ChunkGrid grid =
      HasParts() ? terms_.grid : ChunkGrid(terms_.parameters, terms_.chunk_elements);
  const absl::Status sound = CheckMeanRecords(records, grid, owned.size(), owned);
  return sound.ok() ? sound : bad(sound.message());
}

Ballot::Key Ballot::KeyOf(const v1::Vote& vote) {
  v1::Vote same;
  same.set_payload_digest(vote.payload_digest());
  *same.mutable_records() = vote.records();
  return same.SerializeAsString();  // it is compared only within this process
}

absl::Status Ballot::OnVote(const std::string& peer, const v1::Vote& vote, Outcome* outcome) {
  if (vote.version() != terms_.version || vote.epoch() != terms_.epoch ||
      vote.revision() != plan().revision()) {
    return absl::OkStatus();
  }
  if (!TakesPart(peer) || Lost(peer)) return absl::OkStatus();
  const absl::Status checked = CheckVote(peer, vote);
  if (!checked.ok()) return checked;
  Count(peer, vote);
  OnSummed(peer);
  if (audit_ == nullptr && MayDecide()) Decide(false, outcome);
  return absl::OkStatus();
}

void Ballot::OnSummed(const std::string& peer) {
  for (int i = 0; i < plan().shards_size(); ++i) {
    plan_.NoteHeld(peer, static_cast<uint32_t>(i), plan().shards(i).attempt());
  }
}

Ballot::Outcome Ballot::OnSumsMissing(absl::Span<const std::string> peers) {
  Outcome outcome;
  outcome.events.push_back(
      absl::StrCat("the exchange's deadline has passed without the masked sums of ",
                   absl::StrJoin(peers, ", ")));
  Lose(peers, &outcome);
  return outcome;
}

Ballot::Outcome Ballot::RedoAll() {
  Outcome outcome;
  if (plan_.RotateAll()) {
    Revise(&outcome);
  } else {
    outcome.events.push_back("no reachable reducer is left");
    outcome.verdict = Verdict::kGiveUp;
  }
  return outcome;
}

void Ballot::OnShardsHeld(const std::string& peer, const v1::ShardsHeld& held) {
  if (held.version() != terms_.version || held.epoch() != terms_.epoch) return;
  for (int i = 0; i < std::min(held.shards_size(), held.attempts_size()); ++i) {
    plan_.NoteHeld(peer, held.shards(i), held.attempts(i));
  }
}

void Ballot::Count(const std::string& peer, const v1::Vote& vote) {
  const size_t contributes = Contributes(peer) ? 1 : 0;
  const auto former = votes_.find(peer);
  if (former != votes_.end()) {  // the peer changes its vote or repeats it
    auto& of_state = sides_[former->second.state_digest()];
    const auto side = of_state.find(KeyOf(former->second));
    side->second.peers.erase(peer);
    side->second.contributors -= contributes;
    if (side->second.peers.empty()) of_state.erase(side);
    if (of_state.empty()) sides_.erase(former->second.state_digest());
  }
  Side& side = sides_[vote.state_digest()][KeyOf(vote)];
  side.peers.insert(peer);
  side.contributors += contributes;
  votes_[peer] = vote;
}

// Returns false if all votes so far are equal and more must come.
bool Ballot::MayDecide() const {
  const bool one_side = sides_.size() == 1 && sides_.begin()->second.size() == 1;
  const size_t contributors = static_cast<size_t>(plan().contributors_size());
  return !one_side || votes_.size() + plan_.lost().size() >= contributors;
}

// Returns the state with the most votes; of two with equally many, that of the first voter in
// roster order.
std::string Ballot::StateDigest() const {
  if (!terms_.state_digest.empty()) return terms_.state_digest;
  std::string most;
  size_t votes = 0;
  std::string first;
  for (const auto& [state, sides] : sides_) {
    size_t count = 0;
    std::string earliest;
    for (const auto& [key, side] : sides) {
      count += side.peers.size();
      if (earliest.empty() || *side.peers.begin() < earliest) earliest = *side.peers.begin();
    }
    if (count < votes || (count == votes && earliest > first)) continue;
    most = state;
    votes = count;
    first = earliest;
  }
  return most;
}

std::map<std::string, std::string> Ballot::Doubted() const {
  const std::string most = StateDigest();
  const auto named = std::count_if(votes_.begin(), votes_.end(), [&](const auto& vote) {
    return vote.second.state_digest() == most;
  });
  const bool known = !terms_.state_digest.empty() || 2 * static_cast<size_t>(named) > votes_.size();
  std::map<std::string, std::string> doubted;
  for (const auto& [peer, vote] : votes_) {
    if (!known || vote.state_digest() != most) doubted[peer] = known ? most : "";
  }
  return doubted;
}

void Ballot::NameOddOnes(const std::string& state, Outcome* outcome) {
  // With two voters and two states it is unknown which one is wrong; the third vote will decide.
  if (terms_.state_digest.empty() && votes_.size() == 2) return;
  for (const auto& [other, sides] : sides_) {
    if (other == state) continue;
    for (const auto& [key, side] : sides) {
      for (const std::string& peer : side.peers) {
        if (!odd_.insert(peer).second) continue;
        outcome->errors.push_back(absl::StrCat("peer ", peer, " holds another state ",
                                               terms_.version - 1,
                                               " than the others; its vote does not count"));
      }
    }
  }
}

void Ballot::Agree(std::vector<std::string> peers, Outcome* outcome) {
  // One of the other reducers has told peers different things, so these reducers do not average for
  // a while.
  if (!group_.empty()) {
    for (const std::string& peer : reducers_) {
      const bool alone = std::find(group_.begin(), group_.end(), peer) != group_.end();
      if (alone || Lost(peer)) continue;
      Distrust(peer);
      outcome->suspects[peer] = "peers came to different results until it averaged nothing";
    }
  }
  agreement_ = votes_.at(peers.front());
  agreed_ = std::move(peers);
  outcome->verdict = Verdict::kCommit;
  if (terms_.audit_share > 0) BeginAudit(outcome);
}

// Returns true if the peers that lack the payload will find one to fetch it from. A voter with
// another state still has the same payload.
bool Ballot::Fetchable(const v1::Vote& agreed) const {
  return std::any_of(votes_.begin(), votes_.end(), [&](const auto& vote) {
    return vote.second.payload_digest() == agreed.payload_digest() && !Lost(vote.first) &&
           plan_.Dialable(vote.first);
  });
}

bool Ballot::Votes(const std::string& peer) const {
  const std::vector<std::string> voters = Voters();
  return std::find(voters.begin(), voters.end(), peer) != voters.end();
}

size_t Ballot::Contributing(const std::vector<std::string>& peers) const {
  return static_cast<size_t>(std::count_if(peers.begin(), peers.end(),
                                           [this](const auto& peer) { return Contributes(peer); }));
}

// One conflict may be a mistake. After more, some reducer must be telling peers different things,
// since votes alone cannot keep a quorum of others from agreeing. Halves, quarters and so on of the
// reducers then average alone.
void Ballot::OnConflict(const std::string& sides, Outcome* outcome) {
  const uint32_t revision = plan().revision();
  const bool redone = conflicts_++ == 0 ? plan_.RotateAll() : RedoBySome();
  outcome->errors.push_back(absl::StrCat(
      "different results under revision ", revision, ": ", sides,
      !redone ? "; nobody is left to redo them"
      : group_.empty()
          ? "; all shards are redone elsewhere"
          : absl::StrCat("; all shards are redone by ", absl::StrJoin(group_, ", "), " alone")));
  if (redone) return Revise(outcome);
  outcome->verdict = Verdict::kGiveUp;
}

bool Ballot::RedoBySome() {
  if (group_.empty()) reducers_ = plan_.Reducers();
  const std::vector<std::string> whole = group_.empty() ? reducers_ : group_;
  const auto middle = whole.begin() + static_cast<std::ptrdiff_t>((whole.size() + 1) / 2);
  if (whole.size() > 1) {
    groups_.emplace_back(whole.begin(), middle);
    groups_.emplace_back(middle, whole.end());
  }
  while (!groups_.empty()) {
    group_ = std::move(groups_.front());
    groups_.pop_front();
    if (plan_.RedoAllAt(group_)) return true;
  }
  return false;
}

// Returns the fewest contributors that the mean of a chunk of this part may have: a quorum, or all
// owners of its expert if these are fewer, without those that are lost or whose updates are
// refused.
size_t Ballot::FewestOf(uint32_t part) const {
  if (part == 0) return terms_.quorum;
  const auto owners = std::count_if(
      plan().contributors().begin(), plan().contributors().end(), [&](const auto& member) {
        return !Lost(member.peer()) && useless_.count(member.peer()) == 0 &&
               Covers(member.owned(), part);
      });
  return std::min<size_t>(terms_.quorum, static_cast<size_t>(owners));
}

// Returns the peers that reduced or relayed chunks with fewer contributors than FewestOf.
std::set<std::string> Ballot::ThinServers(const v1::Vote& vote) const {
  std::set<std::string> servers;
  for (int i = 0; i < vote.records().shards_size(); ++i) {
    bool thin = false;
    const auto look = [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
      const size_t counted = CountBits(set.contributors());
      if (counted >= terms_.quorum) return;
      for (uint32_t chunk = first; chunk < first + chunks && !thin;) {
        thin = counted < FewestOf(HasParts() ? terms_.grid.Part(chunk) : 0);
        chunk = HasParts() ? terms_.grid.EndOfPart(chunk) : first + chunks;
      }
    };
    ForEachRun(vote.records(), vote.records().shards(i), look);
    if (!thin) continue;
    servers.insert(plan().shards(i).reducer());
    for (const v1::Relay& relay : plan().shards(i).relays()) servers.insert(relay.peer());
  }
  return servers;
}

// Handles chunks with too few contributors. The peers that averaged them may have left contributors
// out, so other peers redo the chunks once.
void Ballot::OnThin(const std::set<std::string>& servers, Outcome* outcome) {
  thin_.insert(servers.begin(), servers.end());
  Shun();
  const bool redone = thin_results_++ == 0 && (plan_.Redo(servers) || plan_.RotateAll());
  outcome->errors.push_back(
      absl::StrCat("what was voted for counts fewer contributors than the quorum of ",
                   terms_.quorum, HasParts() ? " or the owners of an expert" : "", " where ",
                   absl::StrJoin(servers, ", "), servers.size() == 1 ? " has" : " have",
                   " averaged", redone ? "; it is redone elsewhere" : ""));
  for (const std::string& peer : servers) {
    outcome->suspects[peer] = "what it averaged counted fewer contributors than the quorum";
  }
  if (redone) return Revise(outcome);
  outcome->verdict = Verdict::kGiveUp;
}

// Handles records that are too long. The peer that caused this is lost, and delivers nothing under
// the next attempt.
void Ballot::OnLongRecords(Outcome* outcome) {
  const bool redone = !std::exchange(long_records_, true) && plan_.RotateAll();
  outcome->errors.push_back(
      absl::StrCat("whose chunks are in which mean takes more than a vote may say",
                   redone ? "; all shards are redone elsewhere" : ""));
  if (redone) return Revise(outcome);
  outcome->verdict = Verdict::kGiveUp;
}

void Ballot::Decide(bool deadline_passed, Outcome* outcome) {
  const std::string state = StateDigest();
  NameOddOnes(state, outcome);
  const auto of_state = sides_.find(state);
  const std::map<Key, Side> nobody;
  const std::map<Key, Side>& counted = of_state == sides_.end() ? nobody : of_state->second;
  const Side* largest = nullptr;
  std::vector<std::string> sides;
  size_t voters = 0;
  for (const auto& [key, side] : counted) {
    voters += side.peers.size();
    if (largest == nullptr || side.contributors > largest->contributors) largest = &side;
    sides.push_back(absl::StrJoin(side.peers, ", "));
  }
  std::vector<std::string> best;
  if (largest != nullptr) best.assign(largest->peers.begin(), largest->peers.end());
  const std::vector<std::string> present = plan_.Voters();
  const bool all_voted = std::all_of(present.begin(), present.end(),
                                     [&](const auto& peer) { return votes_.count(peer) > 0; });
  const bool enough =
      Contributing(best) + (Planted(PlantedBug::kQuorumOffByOne) ? 1 : 0) >= terms_.quorum &&
      Contributing(best) > 0 && Fetchable(votes_.at(best.front()));
  const bool conflict = counted.size() > 1;
  if (enough && (all_voted || deadline_passed) && (!conflict || conflicts_ > 0)) {
    if (!votes_.at(best.front()).has_records()) return OnLongRecords(outcome);
    if (conflict) {
      outcome->errors.push_back(absl::StrCat("two results again (", absl::StrJoin(sides, " | "),
                                             "); taking that of ", absl::StrJoin(best, ", ")));
    }
    const std::set<std::string> thin = ThinServers(votes_.at(best.front()));
    if (!thin.empty() && !Planted(PlantedBug::kThinEntryTaken)) return OnThin(thin, outcome);
    Agree(best, outcome);
    return;
  }
  if (conflict && (conflicts_ == 0 || all_voted || deadline_passed)) {
    OnConflict(absl::StrJoin(sides, " | "), outcome);
    return;
  }
  if (!deadline_passed) return;
  std::vector<std::string> missing;
  for (const std::string& peer : present) {
    if (votes_.count(peer) == 0) missing.push_back(peer);
  }
  outcome->events.push_back(absl::StrCat("the exchange's deadline has passed with ", voters, " of ",
                                         present.size(),
                                         " votes; missing: ", absl::StrJoin(missing, ", ")));
  if (missing.empty() || Contributing(present) - Contributing(missing) < terms_.quorum) {
    silent_ = !missing.empty();
    outcome->verdict = Verdict::kGiveUp;
    return;
  }
  Lose(missing, outcome);
}

Ballot::Outcome Ballot::OnLost(absl::Span<const std::string> peers) {
  Outcome outcome;
  std::vector<std::string> fresh;
  for (const std::string& peer : peers) {
    if (!TakesPart(peer) || Lost(peer)) continue;
    const bool needed = Contributes(peer) || plan_.Serves(peer);
    plan_.Lose(peer);
    if (needed) fresh.push_back(peer);
  }
  if (audit_ != nullptr) {
    for (const std::string& peer : peers) audit_->OnLost(peer);
    if (Fetchable(agreement_)) {
      SettleAudit(&outcome);
      return outcome;
    }
    audit_.reset();  // the agreed payload could not be given to any peer
  }
  if (fresh.empty()) return outcome;
  // The remaining peers may all have voted already; then nothing needs to be redone.
  Decide(false, &outcome);
  if (outcome.verdict != Verdict::kWait) return outcome;
  Lose(fresh, &outcome);
  return outcome;
}

void Ballot::Lose(absl::Span<const std::string> peers, Outcome* outcome) {
  for (const std::string& peer : peers) plan_.Lose(peer);
  if (plan_.Present().size() < terms_.quorum) {
    outcome->verdict = Verdict::kGiveUp;
    return;
  }
  if (!plan_.MoveFrom(std::set<std::string>(peers.begin(), peers.end()), &outcome->events)) {
    outcome->events.push_back("no reachable reducer is left");
    outcome->verdict = Verdict::kGiveUp;
    return;
  }
  Revise(outcome);
}

Ballot::Outcome Ballot::OnUnreachable(const std::string& reporter,
                                      const v1::ReducerUnreachable& report) {
  Outcome outcome;
  if (audit_ != nullptr) return outcome;  // all data has arrived where it is needed
  const std::string& reducer = report.reducer();
  const bool current = report.revision() == plan().revision();
  if (report.version() != terms_.version || report.epoch() != terms_.epoch ||
      report.revision() > plan().revision() || !TakesPart(reporter) || Lost(reporter) ||
      !TakesPart(reducer)) {
    return outcome;
  }
  if (reporter == reducer) {
    if (current && plan_.TakeHeldFrom(reporter, &outcome.events)) Revise(&outcome);
    return outcome;
  }
  if (plan_.unreachable().count(reducer) > 0) return outcome;
  // Reports under an older revision also count, because several peers find the same at the same
  // time.
  std::set<std::string>& accusers = accusers_[reducer];
  const bool fresh = accusers.insert(reporter).second;
  if (!fresh && !(current && plan_.Serves(reducer))) return outcome;
  if (fresh) {
    outcome.events.push_back(absl::StrCat("peer ", reporter, " cannot reach ", reducer, ": ",
                                          report.reason().substr(0, kLongestReason)));
  }
  if (accusers.size() > 1) {
    MoveUnreachable(reducer, &outcome);
    return outcome;
  }
  Shun();
  if (!plan_.Serves(reducer)) return outcome;
  outcome.probes.insert(reducer);
  const bool many =
      AccusedBy(reporter) > MostAccused(static_cast<size_t>(plan().contributors_size()));
  if (many || !plan_.OthersCanReduce({reporter, reducer})) {
    DoWithout(reporter, reducer, &outcome);
  } else if (plan_.MoveFrom({reducer}, &outcome.events)) {
    Revise(&outcome);
  }
  return outcome;
}

Ballot::Outcome Ballot::OnFoundUnreachable(const std::string& peer) {
  Outcome outcome;
  if (audit_ != nullptr || !TakesPart(peer) || plan_.unreachable().count(peer) > 0) return outcome;
  MoveUnreachable(peer, &outcome);
  if (outcome.verdict != Verdict::kWait || !plan_.Serves(peer)) return outcome;
  outcome.events.push_back(absl::StrCat("nobody can take over from ", peer));
  outcome.verdict = Verdict::kGiveUp;
  return outcome;
}

Ballot::Outcome Ballot::OnProbed(const std::string& peer, bool answered) {
  Outcome outcome;
  const auto accused = accusers_.find(peer);
  if (answered || audit_ != nullptr || accused == accusers_.end()) return outcome;
  if (accused->second == std::set<std::string>{kCoordinatorDials}) return outcome;
  if (plan_.unreachable().count(peer) > 0) return outcome;
  outcome.events.push_back(absl::StrCat("the coordinator cannot reach ", peer, " either"));
  MoveUnreachable(peer, &outcome);
  return outcome;
}

// Called when two accounts say that the reducer cannot be reached.
void Ballot::MoveUnreachable(const std::string& reducer, Outcome* outcome) {
  plan_.MarkUnreachable(reducer);
  Shun();
  // If no peer can take over, the peers that reach each other may still finish before the deadline.
  if (!plan_.Serves(reducer)) return;
  ReductionPlan before = plan_;
  if (plan_.MoveFrom({reducer}, &outcome->events)) return Revise(outcome);
  plan_ = std::move(before);
}

// Continues without a reporter that alone cannot reach the reducer. One of the two is badly
// connected or lies, and it is unknown which. Without the reporter all others continue unchanged.
// If the reporter is needed, it takes over the shards that it cannot fetch.
void Ballot::DoWithout(const std::string& reporter, const std::string& reducer, Outcome* outcome) {
  const ReductionPlan before = plan_;
  const size_t left = plan_.Present().size() - (Contributes(reporter) ? 1 : 0);
  if (left >= terms_.quorum && left > 0) {
    Outcome without;
    without.events.push_back(
        absl::StrCat("no other peer says so, and the exchange goes on without ", reporter));
    Lose(std::vector<std::string>{reporter}, &without);
    if (without.verdict == Verdict::kRevised) {
      outcome->events.insert(outcome->events.end(), without.events.begin(), without.events.end());
      outcome->verdict = without.verdict;
      return;
    }
    plan_ = before;
  }
  // This happens only once, and only for the first of two peers that cannot reach each other;
  // otherwise they would take over from each other forever.
  if (took_over_.count(reducer) > 0 || !took_over_.insert(reporter).second) return;
  if (plan_.MoveFrom({reducer}, &outcome->events)) return Revise(outcome);
  plan_ = before;
}

void Ballot::Shun() {
  std::set<std::string> shunned = thin_;
  for (const auto& [accuser, accused] : Unconfirmed()) {
    shunned.insert(accuser);
    shunned.insert(accused);
  }
  plan_.SetShunned(std::move(shunned));
}

std::vector<std::pair<std::string, std::string>> Ballot::Unconfirmed() const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [reducer, accusers] : accusers_) {
    if (unreachable().count(reducer) > 0) continue;
    for (const std::string& accuser : accusers) pairs.emplace_back(accuser, reducer);
  }
  return pairs;
}

size_t Ballot::AccusedBy(const std::string& reporter) const {
  const auto pairs = Unconfirmed();
  return static_cast<size_t>(std::count_if(
      pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == reporter; }));
}

Ballot::Outcome Ballot::OnDeadline() {
  Outcome outcome;
  if (audit_ == nullptr) {
    Decide(true, &outcome);
  } else if (audit_->OnDeadline()) {
    outcome.verdict = Verdict::kAudit;
  } else {
    SettleAudit(&outcome);
  }
  return outcome;
}

void Ballot::Revise(Outcome* outcome) {
  audit_.reset();
  plan_.Revise();
  DrawNonce();
  votes_.clear();
  sides_.clear();
  outcome->verdict = Verdict::kRevised;
}

Ballot::Outcome Ballot::OnRefused(const std::string& reporter, const v1::UpdateRefused& refused) {
  Outcome outcome;
  const std::string& contributor = refused.contributor();
  if (refused.version() != terms_.version || refused.epoch() != terms_.epoch) return outcome;
  if (!TakesPart(reporter) || !Contributes(contributor) || reporter == contributor) return outcome;
  if (!refused_.insert({reporter, contributor}).second) return outcome;
  outcome.errors.push_back(absl::StrCat("peer ", reporter, " does not take the update of peer ",
                                        contributor, ": ",
                                        refused.reason().substr(0, kLongestReason)));
  outcome.suspects[contributor] = absl::StrCat("peer ", reporter, " did not take its update");
  outcome.suspects[reporter] = absl::StrCat("it did not take the update of peer ", contributor);
  return outcome;
}

void Ballot::DrawNonce() {
  if (terms_.audit_share <= 0) return;
  nonce_ = terms_.draw_nonce();
  plan_.Commit(AuditCommitment(nonce_));
}

// Begins the audit. The voters hold the payload, so they can check whether it follows from the
// inputs.
void Ballot::BeginAudit(Outcome* outcome) {
  AuditJudge::Terms terms;
  terms.previous_header_digest = terms_.previous_header_digest;
  terms.nonce = nonce_;
  terms.share = terms_.audit_share;
  for (const std::string& peer : agreed_) {
    if (!Lost(peer) && barred_.count(peer) == 0) terms.auditors.insert(peer);
  }
  audit_ = std::make_unique<AuditJudge>(std::move(terms), plan(), agreement_);
  extended_ = false;
  outcome->verdict = Verdict::kAudit;
  SettleAudit(outcome);
}

void Ballot::SettleAudit(Outcome* outcome) {
  if (!audit_->complete()) return;
  const AuditJudge::Result result = audit_->Judge();
  outcome->errors.insert(outcome->errors.end(), result.events.begin(), result.events.end());
  outcome->suspects.insert(result.suspects.begin(), result.suspects.end());
  // If a reducer gives no inputs, perhaps no peer can dial it.
  for (const auto& [peer, why] : result.suspects) outcome->probes.insert(peer);
  outcome->liars = result.liars;
  for (const auto& [liar, evidence] : result.liars) {
    outcome->errors.push_back(absl::StrCat("peer ", liar, " has lied: ", evidence));
    plan_.Lose(liar);
  }
  barred_.insert(result.accusers.begin(), result.accusers.end());
  if (!result.redo.empty() && Redo(result, outcome)) return;
  outcome->verdict = Verdict::kCommit;
}

// Returns false if the existing result must be accepted.
bool Ballot::Redo(const AuditJudge::Result& result, Outcome* outcome) {
  if (plan_.Present().size() < terms_.quorum) {
    outcome->verdict = Verdict::kGiveUp;
    return true;
  }
  for (const std::string& peer : result.redo) Distrust(peer);
  if (plan_.Redo(result.redo)) {
    outcome->events.push_back(
        absl::StrCat("the shards of ", absl::StrJoin(result.redo, ", "), " are redone elsewhere"));
    Revise(outcome);
    return true;
  }
  if (!result.liars.empty()) {
    outcome->verdict = Verdict::kGiveUp;
    return true;
  }
  outcome->errors.push_back(absl::StrCat("nobody else can redo the shards of ",
                                         absl::StrJoin(result.redo, ", "),
                                         "; what was voted for is taken"));
  return false;
}

Ballot::Outcome Ballot::OnAuditReport(const std::string& peer, const v1::AuditReport& report) {
  Outcome outcome;
  if (audit_ == nullptr) return outcome;
  audit_->OnReport(peer, report);
  // The auditors that are asked now have as much time as the first ones had.
  if (audit_->disputed() && !std::exchange(extended_, true)) outcome.verdict = Verdict::kAudit;
  SettleAudit(&outcome);
  return outcome;
}

std::map<std::string, std::string> Ballot::OnLateReport(const std::string& peer,
                                                        const v1::AuditReport& report) {
  if (audit_ == nullptr) return {};
  audit_->OnReport(peer, report);
  return audit_->Judge().liars;
}

std::map<std::string, v1::Audit> Ballot::TakeAuditOrders() {
  std::map<std::string, v1::Audit> orders;
  if (audit_ != nullptr) orders = audit_->TakeOrders();
  for (auto& [peer, order] : orders) {
    order.set_deadline_milliseconds(plan().deadline_milliseconds() / 2);
  }
  return orders;
}

std::optional<v1::Audit> Ballot::AuditOrderOf(const std::string& peer) const {
  if (audit_ == nullptr) return std::nullopt;
  v1::Audit order = audit_->OrderOf(peer);
  if (order.chunks().empty()) return std::nullopt;
  order.set_deadline_milliseconds(plan().deadline_milliseconds() / 2);
  return order;
}

// An auditor gets half of the time of an exchange, and its answer a quarter more to arrive.
absl::Duration Ballot::AuditPatience() const { return terms_.deadline * 3 / 4; }

}  // namespace atolld
