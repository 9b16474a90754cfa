#include "membership/exchange_round.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "membership/bitmap.h"
#include "membership/shard_plan.h"

namespace atolld {
namespace {

constexpr size_t kDigestBytes = 32;

// A peer with bad memory can make every attempt disagree; after this many the round begins anew.
constexpr int kMaxConflicts = 4;

bool SameBounds(const v1::Shard& shard, const v1::ShardRecord& record) {
  return shard.first_chunk() == record.first_chunk() && shard.chunks() == record.chunks() &&
         shard.reducer() == record.reducer();
}

}  // namespace

absl::Status ExchangeRound::Reducible(absl::Span<const ExchangeContributor> contributors) {
  if (contributors.size() == 1) return absl::OkStatus();  // it reduces for itself
  for (const ExchangeContributor& contributor : contributors) {
    if (!contributor.member.address().empty()) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "no reachable reducer: no contributor has an address that others can dial");
}

ExchangeRound::ExchangeRound(ExchangeTerms terms, std::vector<ExchangeContributor> contributors)
    : terms_(std::move(terms)) {
  plan_.set_version(terms_.version);
  plan_.set_epoch(terms_.epoch);
  plan_.set_revision(1);
  plan_.set_parameters(terms_.parameters);
  plan_.set_deadline_milliseconds(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(terms_.deadline)));
  const bool alone = contributors.size() == 1;
  // Who was not reachable lately reduces only if nobody else can.
  const bool any_reachable =
      std::any_of(contributors.begin(), contributors.end(), [&](const auto& contributor) {
        return contributor.may_reduce && !contributor.member.address().empty();
      });
  std::vector<double> bandwidths;
  for (const ExchangeContributor& contributor : contributors) {
    *plan_.add_contributors() = contributor.member;
    const bool can = alone || !contributor.member.address().empty();
    may_reduce_[contributor.member.peer()] = can;
    const bool does = can && (alone || contributor.may_reduce || !any_reachable);
    bandwidths.push_back(does ? contributor.bandwidth : 0);
  }
  const uint64_t chunks = (terms_.parameters + terms_.chunk_elements - 1) / terms_.chunk_elements;
  const std::vector<uint32_t> counts =
      SplitChunks(static_cast<uint32_t>(chunks), ShardWeights(bandwidths));
  uint32_t first = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    v1::Shard* shard = plan_.add_shards();
    shard->set_first_chunk(first);
    shard->set_chunks(counts[i]);
    shard->set_reducer(contributors[i].member.peer());
    shard->set_attempt(1);
    first += counts[i];
  }
}

bool ExchangeRound::Contributes(const std::string& peer) const {
  return may_reduce_.count(peer) > 0;
}

absl::Status ExchangeRound::CheckVote(const std::string& peer, const v1::Vote& vote) const {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", terms_.version, ": vote of peer ", peer, ": ", what));
  };
  if (vote.payload_digest().size() != kDigestBytes)
    return bad("the payload's digest is not 32 bytes");
  if (vote.state_digest().size() != kDigestBytes) return bad("the state's digest is not 32 bytes");
  if (vote.shards_size() != plan_.shards_size())
    return bad("another number of shards than the plan's");
  const size_t contributors = static_cast<size_t>(plan_.contributors_size());
  for (int i = 0; i < vote.shards_size(); ++i) {
    const v1::ShardRecord& record = vote.shards(i);
    if (!SameBounds(plan_.shards(i), record))
      return bad(absl::StrCat("shard ", i, " is not the plan's"));
    if (!ValidBitmap(record.contributors(), contributors)) {
      return bad(
          absl::StrCat("shard ", i, ": its bitmap does not fit ", contributors, " contributors"));
    }
    uint64_t after = record.first_chunk();
    for (const v1::ChunkRecord& exception : record.exceptions()) {
      if (exception.chunk() < after ||
          exception.chunk() - record.first_chunk() >= record.chunks()) {
        return bad(
            absl::StrCat("shard ", i, ": chunk ", exception.chunk(), " is not in its place"));
      }
      if (!ValidBitmap(exception.contributors(), contributors)) {
        return bad(absl::StrCat("chunk ", exception.chunk(), ": its bitmap does not fit"));
      }
      after = uint64_t{exception.chunk()} + 1;
    }
  }
  return absl::OkStatus();
}

ExchangeRound::Key ExchangeRound::KeyOf(const v1::Vote& vote) {
  v1::Vote same;
  same.set_payload_digest(vote.payload_digest());
  *same.mutable_shards() = vote.shards();
  return same.SerializeAsString();  // compared within this process alone
}

absl::Status ExchangeRound::OnVote(const std::string& peer, const v1::Vote& vote,
                                   Outcome* outcome) {
  if (vote.version() != terms_.version || vote.epoch() != terms_.epoch ||
      vote.revision() != plan_.revision()) {
    return absl::OkStatus();
  }
  if (!Contributes(peer) || Lost(peer)) return absl::OkStatus();
  const absl::Status checked = CheckVote(peer, vote);
  if (!checked.ok()) return checked;
  votes_[peer] = vote;
  Decide(false, outcome);
  return absl::OkStatus();
}

std::string ExchangeRound::StateDigest() const {
  if (!terms_.state_digest.empty()) return terms_.state_digest;
  std::map<std::string, size_t> counts;
  std::string most;
  for (const auto& [peer, vote] : votes_) ++counts[vote.state_digest()];
  for (const auto& [peer, vote] : votes_) {
    if (most.empty() || counts[vote.state_digest()] > counts[most]) most = vote.state_digest();
  }
  return most;
}

std::map<ExchangeRound::Key, std::vector<std::string>> ExchangeRound::CountedVotes(
    Outcome* outcome) {
  const std::string state = StateDigest();
  // With two voters and two states nobody knows who is wrong; the third vote will tell.
  const bool majority_known = !terms_.state_digest.empty() || votes_.size() != 2;
  std::map<Key, std::vector<std::string>> counted;
  for (const auto& [peer, vote] : votes_) {
    if (vote.state_digest() == state) {
      counted[KeyOf(vote)].push_back(peer);
    } else if (majority_known && odd_.insert(peer).second) {
      outcome->errors.push_back(absl::StrCat("peer ", peer, " holds another state ",
                                             terms_.version - 1,
                                             " than the others; its vote does not count"));
    }
  }
  return counted;
}

void ExchangeRound::Agree(std::vector<std::string> peers, Outcome* outcome) {
  agreement_ = votes_.at(peers.front());
  agreed_ = std::move(peers);
  outcome->verdict = Verdict::kCommit;
}

void ExchangeRound::Decide(bool deadline_passed, Outcome* outcome) {
  const auto counted = CountedVotes(outcome);
  std::vector<std::string> best;
  std::vector<std::string> sides;
  size_t voters = 0;
  for (const auto& [key, peers] : counted) {
    voters += peers.size();
    if (peers.size() > best.size()) best = peers;
    sides.push_back(absl::StrJoin(peers, ", "));
  }
  const std::vector<std::string> present = Present();
  const bool all_voted = std::all_of(present.begin(), present.end(),
                                     [&](const auto& peer) { return votes_.count(peer) > 0; });
  const bool enough =
      best.size() >= terms_.quorum &&
      std::any_of(best.begin(), best.end(), [&](const auto& peer) { return !Lost(peer); });
  const bool conflict = counted.size() > 1;
  if (enough && (all_voted || deadline_passed) && (!conflict || conflicts_ > 0)) {
    if (conflict) {
      outcome->errors.push_back(absl::StrCat("two results again (", absl::StrJoin(sides, " | "),
                                             "); taking that of ", absl::StrJoin(best, ", ")));
    }
    Agree(best, outcome);
    return;
  }
  if (conflict && (conflicts_ == 0 || all_voted || deadline_passed)) {
    outcome->errors.push_back(absl::StrCat("different results under revision ", plan_.revision(),
                                           ": ", absl::StrJoin(sides, " | "),
                                           "; all shards are redone elsewhere"));
    if (++conflicts_ > kMaxConflicts || !RotateAll()) {
      outcome->verdict = Verdict::kGiveUp;
      return;
    }
    Revise(outcome);
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
  if (missing.empty() || present.size() - missing.size() < terms_.quorum) {
    outcome->verdict = Verdict::kGiveUp;
    return;
  }
  Lose(missing, outcome);
}

ExchangeRound::Outcome ExchangeRound::OnLost(absl::Span<const std::string> peers) {
  Outcome outcome;
  std::vector<std::string> fresh;
  for (const std::string& peer : peers) {
    if (Contributes(peer) && lost_.insert(peer).second) fresh.push_back(peer);
  }
  if (fresh.empty()) return outcome;
  // Perhaps those that remain have all voted already; then nothing needs to be done again.
  Decide(false, &outcome);
  if (outcome.verdict != Verdict::kWait) return outcome;
  Lose(fresh, &outcome);
  return outcome;
}

void ExchangeRound::Lose(absl::Span<const std::string> peers, Outcome* outcome) {
  lost_.insert(peers.begin(), peers.end());
  if (Present().size() < terms_.quorum) {
    outcome->verdict = Verdict::kGiveUp;
    return;
  }
  if (!MoveShards(std::set<std::string>(peers.begin(), peers.end()), outcome)) {
    outcome->events.push_back("no reachable reducer is left");
    outcome->verdict = Verdict::kGiveUp;
    return;
  }
  Revise(outcome);
}

ExchangeRound::Outcome ExchangeRound::OnUnreachable(const std::string& reporter,
                                                    const v1::ReducerUnreachable& report) {
  Outcome outcome;
  const std::string& reducer = report.reducer();
  if (report.version() != terms_.version || report.epoch() != terms_.epoch ||
      report.revision() != plan_.revision() || !Contributes(reporter) || Lost(reporter) ||
      reporter == reducer || !Contributes(reducer)) {
    return outcome;
  }
  if (!unreachable_.insert(reducer).second) return outcome;
  outcome.events.push_back(
      absl::StrCat("peer ", reporter, " cannot reach ", reducer, ": ", report.reason()));
  // With nobody to take over, those that reach each other may still finish before the deadline.
  if (MoveShards({reducer}, &outcome)) Revise(&outcome);
  return outcome;
}

ExchangeRound::Outcome ExchangeRound::OnDeadline() {
  Outcome outcome;
  Decide(true, &outcome);
  return outcome;
}

std::vector<std::string> ExchangeRound::Present() const {
  std::vector<std::string> present;
  for (const v1::PlanMember& member : plan_.contributors()) {
    if (!Lost(member.peer())) present.push_back(member.peer());
  }
  return present;
}

std::vector<std::string> ExchangeRound::Reducers() const {
  const std::vector<std::string> present = Present();
  if (present.size() == 1) return present;
  std::vector<std::string> reducers;
  for (const std::string& peer : present) {
    if (may_reduce_.at(peer) && unreachable_.count(peer) == 0) reducers.push_back(peer);
  }
  return reducers;
}

bool ExchangeRound::MoveShards(const std::set<std::string>& from, Outcome* outcome) {
  std::map<std::string, uint64_t> load;
  for (const std::string& peer : Reducers()) {
    if (from.count(peer) == 0) load[peer] = 0;
  }
  for (const v1::Shard& shard : plan_.shards()) {
    const auto it = load.find(shard.reducer());
    if (it != load.end()) it->second += shard.chunks();
  }
  std::set<std::string> takers;
  for (v1::Shard& shard : *plan_.mutable_shards()) {
    if (from.count(shard.reducer()) == 0) continue;
    if (load.empty()) return false;
    const auto least = std::min_element(
        load.begin(), load.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    least->second += shard.chunks();
    takers.insert(least->first);
    shard.set_reducer(least->first);
    shard.set_attempt(shard.attempt() + 1);
  }
  if (!takers.empty()) {
    outcome->events.push_back(absl::StrCat("the shards of ", absl::StrJoin(from, ", "), " go to ",
                                           absl::StrJoin(takers, ", ")));
  }
  return true;
}

bool ExchangeRound::RotateAll() {
  const std::vector<std::string> reducers = Reducers();
  if (reducers.empty()) return false;
  for (v1::Shard& shard : *plan_.mutable_shards()) {
    const auto it = std::upper_bound(reducers.begin(), reducers.end(), shard.reducer());
    shard.set_reducer(it == reducers.end() ? reducers.front() : *it);
    shard.set_attempt(shard.attempt() + 1);
  }
  return true;
}

void ExchangeRound::Revise(Outcome* outcome) {
  plan_.set_revision(plan_.revision() + 1);
  plan_.clear_lost();
  for (const std::string& peer : lost_) plan_.add_lost(peer);
  votes_.clear();
  outcome->verdict = Verdict::kRevised;
}

}  // namespace atolld
