#include "membership/planning/reduction_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/bitmap.h"
#include "compression/base/words.h"
#include "membership/planning/message_sizes.h"

namespace atolld {
namespace {

const std::string& ServerOf(const v1::Shard& shard) {
  return shard.holder().empty() ? shard.reducer() : shard.holder();
}

bool HasAddress(const ExchangeContributor& contributor) {
  return !contributor.member.address().empty();
}

// The bytes that later revisions can add: a holder for each shard, each contributor's loss, the
// commitment.
uint64_t Growth(const v1::Plan& plan) {
  constexpr uint64_t kName = 2 + 64;
  return kName * static_cast<uint64_t>(plan.shards_size() + plan.contributors_size() + 2);
}

// Returns true if no other peer's bytes are needed, so that none must dial.
bool IsAlone(const ExchangeTerms& terms, const std::vector<ExchangeContributor>& contributors) {
  return contributors.size() == 1 &&
         (HasAddress(contributors.front()) || terms.aggregators.empty());
}

}  // namespace

std::vector<double> ShardWeights(absl::Span<const double> bandwidths) {
  const size_t n = bandwidths.size();
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  size_t reachable = 0;
  for (const double bandwidth : bandwidths) {
    if (bandwidth <= 0) continue;
    ++reachable;
    sum += bandwidth;
    least = std::min(least, bandwidth);
  }
  std::vector<double> weights(n, 0);
  if (reachable == 0) return weights;
  if (n < 3) {
    for (size_t i = 0; i < n; ++i) {
      if (bandwidths[i] > 0) weights[i] = 1.0 / static_cast<double>(reachable);
    }
    return weights;
  }
  const double others = static_cast<double>(n - 2);
  const double xi = std::max(1 / least, (others + static_cast<double>(reachable)) / sum);
  double total = 0;
  for (size_t i = 0; i < n; ++i) {
    if (bandwidths[i] > 0) weights[i] = std::max(0.0, (xi * bandwidths[i] - 1) / others);
    total += weights[i];
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

std::vector<uint32_t> SplitChunks(uint32_t chunks, absl::Span<const double> weights) {
  std::vector<uint32_t> counts(weights.size(), 0);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (total <= 0) return counts;
  std::vector<double> remainders(weights.size(), -1);
  uint32_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    const double exact = static_cast<double>(chunks) * weights[i] / total;
    // A sum of rounded quotients may be slightly above a whole number; never give more than is
    // left.
    counts[i] = std::min(static_cast<uint32_t>(std::floor(exact)), chunks - given);
    remainders[i] = exact - static_cast<double>(counts[i]);
    given += counts[i];
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t k = 0; given < chunks; k = (k + 1) % order.size()) {
    if (weights[order[k]] <= 0) continue;
    ++counts[order[k]];
    ++given;
  }
  return counts;
}

std::vector<bool> WhoReduces(const ExchangeTerms& terms,
                             const std::vector<ExchangeContributor>& contributors) {
  const bool alone = IsAlone(terms, contributors);
  const bool any_reachable = std::any_of(
      contributors.begin(), contributors.end(),
      [](const auto& contributor) { return contributor.may_reduce && HasAddress(contributor); });
  const bool any_dialable = std::any_of(contributors.begin(), contributors.end(), HasAddress);
  const bool any_aggregator =
      std::any_of(terms.aggregators.begin(), terms.aggregators.end(),
                  [](const auto& aggregator) { return aggregator.may_reduce; });
  const bool theirs = !alone && !any_reachable && (any_aggregator || !any_dialable);
  std::vector<bool> reduces;
  for (const ExchangeContributor& contributor : contributors) {
    const bool can = alone || (HasAddress(contributor) && !theirs);
    reduces.push_back(can && (alone || contributor.may_reduce || !any_reachable));
  }
  return reduces;
}

std::vector<std::string> GroupsOf(const Grouping& grouping,
                                  const std::vector<std::string>& regions) {
  std::map<std::string, size_t> peers;
  for (const std::string& region : regions) ++peers[region];
  std::map<std::string, size_t> before;
  std::vector<std::string> groups;
  for (const std::string& region : regions) {
    const size_t all = peers[region];
    const size_t count = (all + grouping.members - 1) / grouping.members;
    groups.push_back(absl::StrCat(region, "/", before[region]++ * count / all));
  }
  return groups;
}

ReductionPlan::ReductionPlan(const ExchangeTerms& terms,
                             const std::vector<ExchangeContributor>& contributors)
    : relayed_(terms.by_region || terms.grouping.any()),
      most_relays_(terms.grouping.any() ? terms.grouping.relays : contributors.size()) {
  plan_.set_version(terms.version);
  plan_.set_epoch(terms.epoch);
  plan_.set_revision(1);
  plan_.set_parameters(terms.parameters);
  plan_.set_deadline_milliseconds(static_cast<uint64_t>(absl::ToInt64Milliseconds(terms.deadline)));
  for (const ExchangeAggregator& aggregator : terms.aggregators) {
    aggregators_[aggregator.peer] = aggregator;
  }
  const bool alone = IsAlone(terms, contributors);
  const std::vector<bool> reduces = WhoReduces(terms, contributors);
  std::vector<double> bandwidths;
  std::vector<std::string> names;
  std::vector<std::string> groups;
  for (const ExchangeContributor& contributor : contributors) groups.push_back(contributor.region);
  if (terms.grouping.any()) groups = GroupsOf(terms.grouping, groups);
  for (const ExchangeContributor& contributor : contributors) {
    *plan_.add_contributors() = contributor.member;
    contributors_[contributor.member.peer()] = {alone || HasAddress(contributor),
                                                groups[names.size()], plan_.contributors_size() - 1,
                                                contributor.bandwidth, contributor.may_reduce};
    const bool has_shard = reduces[names.size()] && contributor.has_shard;
    bandwidths.push_back(has_shard ? contributor.bandwidth : 0);
    names.push_back(contributor.member.peer());
  }
  if (std::find(reduces.begin(), reduces.end(), true) == reduces.end()) {
    const bool any = std::any_of(aggregators_.begin(), aggregators_.end(),
                                 [](const auto& one) { return one.second.may_reduce; });
    bandwidths.clear();
    names.clear();
    for (const auto& [peer, aggregator] : aggregators_) {
      bandwidths.push_back(aggregator.may_reduce || !any ? 1 : 0);
      names.push_back(peer);
    }
  }
  const uint64_t chunks = (terms.parameters + terms.chunk_elements - 1) / terms.chunk_elements;
  CutByBandwidth(bandwidths, names, static_cast<uint32_t>(chunks));
  // Each shard names every region's relay with its members.
  if (relayed_ && plan_.ByteSizeLong() + Growth(plan_) > kMostMessageBytes) {
    relayed_ = false;
    for (v1::Shard& shard : *plan_.mutable_shards()) shard.clear_relays();
  }
}

void ReductionPlan::CutByBandwidth(const std::vector<double>& bandwidths,
                                   const std::vector<std::string>& peers, uint32_t chunks) {
  const std::vector<uint32_t> counts = SplitChunks(chunks, ShardWeights(bandwidths));
  uint32_t first = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    v1::Shard* shard = plan_.add_shards();
    shard->set_first_chunk(first);
    shard->set_chunks(counts[i]);
    SetReducer(peers[i], shard);
    shard->set_attempt(1);
    first += counts[i];
    AssignRelays(plan_.shards_size() - 1);
  }
}

// A contributor's address is in its PlanMember.
void ReductionPlan::SetReducer(const std::string& peer, v1::Shard* shard) const {
  shard->set_reducer(peer);
  const auto aggregator = aggregators_.find(peer);
  shard->set_address(aggregator == aggregators_.end() ? "" : aggregator->second.address);
}

const std::string& ReductionPlan::GroupOf(const std::string& peer) const {
  const auto aggregator = aggregators_.find(peer);
  return aggregator == aggregators_.end() ? contributors_.at(peer).group
                                          : aggregator->second.region;
}

std::vector<std::string> ReductionPlan::Present() const {
  std::vector<std::string> present;
  for (const v1::PlanMember& member : plan_.contributors()) {
    if (!Lost(member.peer())) present.push_back(member.peer());
  }
  return present;
}

std::vector<std::string> ReductionPlan::Voters() const {
  std::vector<std::string> voters = Present();
  for (const auto& [peer, aggregator] : aggregators_) {
    if (Serves(peer) && !Lost(peer)) voters.push_back(peer);
  }
  return voters;
}

bool ReductionPlan::Able(const std::string& peer) const {
  if (!only_.empty() && only_.count(peer) == 0) return false;
  return Dialable(peer) && !Lost(peer) && unreachable_.count(peer) == 0;
}

std::vector<std::string> ReductionPlan::Reducers() const {
  std::vector<std::string> present = Present();
  // No peer needs to reach it. But if it only dials out, no other peer could ever fetch what it
  // commits.
  if (present.size() == 1 && Dialable(present.front())) return present;
  std::vector<std::string> reducers = AbleOnes(false);
  if (reducers.empty()) reducers = AbleOnes(true);
  return reducers;
}

// Returns contributors or, if none can serve, aggregators.
std::vector<std::string> ReductionPlan::AbleOnes(bool shunned) const {
  const auto able = [&](const std::string& peer) {
    return Able(peer) && (shunned_.count(peer) > 0) == shunned;
  };
  std::vector<std::string> reducers;
  const std::vector<std::string> present = Present();
  std::copy_if(present.begin(), present.end(), std::back_inserter(reducers), able);
  if (!reducers.empty()) return reducers;
  for (const auto& [peer, aggregator] : aggregators_) {
    if (able(peer)) reducers.push_back(peer);
  }
  return reducers;
}

bool ReductionPlan::OthersCanReduce(const std::set<std::string>& than) const {
  const std::vector<std::string> able = AbleOnes(false);
  return std::any_of(able.begin(), able.end(),
                     [&](const std::string& peer) { return than.count(peer) == 0; });
}

bool ReductionPlan::Serves(const std::string& peer) const {
  return std::any_of(plan_.shards().begin(), plan_.shards().end(), [&](const v1::Shard& shard) {
    return ServerOf(shard) == peer ||
           std::any_of(shard.relays().begin(), shard.relays().end(),
                       [&](const v1::Relay& relay) { return relay.peer() == peer; });
  });
}

void ReductionPlan::NoteHeld(const std::string& peer, uint32_t shard, uint32_t attempt) {
  if (!Contributes(peer) || shard >= static_cast<uint32_t>(plan_.shards_size())) return;
  held_[peer][shard] = attempt;
}

// Returns the chunks that each able peer serves, leaving out those of `without`.
ReductionPlan::ChunksServed ReductionPlan::Load(const std::set<std::string>& without) const {
  ChunksServed load;
  for (const std::string& peer : Reducers()) {
    if (without.count(peer) == 0) load[peer] = 0;
  }
  for (const v1::Shard& shard : plan_.shards()) {
    const auto it = load.find(ServerOf(shard));
    if (it != load.end()) it->second += shard.chunks();
  }
  return load;
}

// Returns the peer of `load`, which is not empty, that would be done first with `more` additional
// chunks; among equals, the one with the least work. A line's time is the traffic on it in the
// whole exchange (ShardWeights) divided by its bandwidth. The bandwidths of aggregators are
// unknown.
std::string ReductionPlan::FirstDone(const ChunksServed& load, uint64_t more) const {
  uint64_t chunks = 0;
  for (const v1::Shard& shard : plan_.shards()) chunks += shard.chunks();
  const uint64_t others = contributors_.size() < 2 ? 0 : contributors_.size() - 2;
  const auto rank = [&](const auto& one) {
    const auto& [peer, served] = one;
    const auto known = contributors_.find(peer);
    const double bandwidth = known == contributors_.end() ? 1 : known->second.bandwidth;
    return std::pair(static_cast<double>(chunks + others * (served + more)) / bandwidth, served);
  };
  return std::min_element(load.begin(), load.end(),
                          [&](const auto& a, const auto& b) { return rank(a) < rank(b); })
      ->first;
}

// Returns, of the able peers that have all of the shard's means, the one that is done first, or an
// empty string.
std::string ReductionPlan::HolderOf(int shard, const ChunksServed& load) const {
  const v1::Shard& wanted = plan_.shards(shard);
  ChunksServed able;
  for (const auto& [peer, chunks] : load) {
    const auto held = held_.find(peer);
    if (held == held_.end() || !Able(peer)) continue;
    const auto found = held->second.find(static_cast<uint32_t>(shard));
    if (found != held->second.end() && found->second == wanted.attempt()) able[peer] = chunks;
  }
  return able.empty() ? "" : FirstDone(able, wanted.chunks());
}

// Gives the shard to a holder (returns true) or to another reducer of `load`, which is not empty.
bool ReductionPlan::GiveAway(int shard, ChunksServed* load, std::string* taker) {
  v1::Shard* given = plan_.mutable_shards(shard);
  *taker = HolderOf(shard, *load);
  const bool whole = !taker->empty();
  if (whole) {
    given->set_holder(*taker);
    given->clear_relays();
  } else {
    *taker = FirstDone(*load, given->chunks());
    BeginAnew(shard, *taker);
  }
  (*load)[*taker] += given->chunks();
  return whole;
}

bool ReductionPlan::MoveFrom(const std::set<std::string>& peers, std::vector<std::string>* events) {
  ChunksServed load = Load(peers);
  std::set<std::string> holders;
  std::set<std::string> reducers;
  size_t relays = 0;
  for (int i = 0; i < plan_.shards_size(); ++i) {
    v1::Shard* shard = plan_.mutable_shards(i);
    if (peers.count(ServerOf(*shard)) == 0) {
      const bool relayed =
          std::any_of(shard->relays().begin(), shard->relays().end(),
                      [&](const v1::Relay& relay) { return peers.count(relay.peer()) > 0; });
      if (relayed) AssignRelays(i);
      relays += relayed ? 1 : 0;
      continue;
    }
    if (load.empty()) return false;
    std::string taker;
    const bool whole = GiveAway(i, &load, &taker);
    (whole ? holders : reducers).insert(taker);
  }
  const std::string whose = absl::StrJoin(peers, ", ");
  if (!holders.empty()) {
    events->push_back(absl::StrCat("shards of ", whose, " are whole at ",
                                   absl::StrJoin(holders, ", "), " and are fetched from there"));
  }
  if (!reducers.empty()) {
    events->push_back(
        absl::StrCat("the shards of ", whose, " go to ", absl::StrJoin(reducers, ", ")));
  }
  if (relays > 0) {
    events->push_back(absl::StrCat(Counted(relays, "shard"), " no longer relayed by ", whose));
  }
  return true;
}

bool ReductionPlan::TakeHeldFrom(const std::string& peer, std::vector<std::string>* events) {
  // It may still reduce shards that begin anew: it is connected, and lacks a mean like any other
  // peer.
  ChunksServed load = Load({});
  std::set<std::string> takers;
  for (int i = 0; i < plan_.shards_size() && !load.empty(); ++i) {
    if (plan_.shards(i).holder() != peer) continue;
    held_[peer].erase(static_cast<uint32_t>(i));
    std::string taker;
    GiveAway(i, &load, &taker);
    takers.insert(taker);
  }
  if (takers.empty()) return false;
  events->push_back(absl::StrCat("peer ", peer,
                                 " lacks a mean of what it was to hold; that goes to ",
                                 absl::StrJoin(takers, ", ")));
  return true;
}

bool ReductionPlan::Redo(const std::set<std::string>& peers) {
  ChunksServed load = Load(peers);
  if (load.empty()) return false;
  for (int i = 0; i < plan_.shards_size(); ++i) {
    const v1::Shard& shard = plan_.shards(i);
    bool in_doubt = peers.count(shard.reducer()) > 0;
    bool relay_lost = false;
    for (const v1::Relay& relay : shard.relays()) {
      in_doubt = in_doubt || peers.count(relay.peer()) > 0;
      relay_lost = relay_lost || Lost(relay.peer());
    }
    // A peer that the exchange has lost since the averaging cannot serve a revision of it.
    if (!in_doubt && !Lost(ServerOf(shard))) {
      if (relay_lost) AssignRelays(i);
      continue;
    }
    // The shard keeps its reducer if only a relay is in doubt.
    const bool stays = load.count(shard.reducer()) > 0;
    const std::string taker = stays ? shard.reducer() : FirstDone(load, shard.chunks());
    load[taker] += stays ? 0 : shard.chunks();
    BeginAnew(i, taker);
  }
  return true;
}

bool ReductionPlan::RotateAll() {
  const std::vector<std::string> reducers = Reducers();
  if (reducers.empty()) return false;
  for (int i = 0; i < plan_.shards_size(); ++i) {
    const auto it = std::upper_bound(reducers.begin(), reducers.end(), ServerOf(plan_.shards(i)));
    BeginAnew(i, it == reducers.end() ? reducers.front() : *it);
  }
  return true;
}

bool ReductionPlan::RedoAllAt(const std::vector<std::string>& reducers) {
  const std::set<std::string> before = std::exchange(only_, {reducers.begin(), reducers.end()});
  const std::vector<std::string> able = Reducers();
  if (able.empty()) {
    only_ = before;
    return false;
  }
  relayed_ = false;
  for (int i = 0; i < plan_.shards_size(); ++i) {
    BeginAnew(i, able[static_cast<size_t>(i) % able.size()]);
  }
  return true;
}

void ReductionPlan::BeginAnew(int shard, const std::string& reducer) {
  v1::Shard* changed = plan_.mutable_shards(shard);
  SetReducer(reducer, changed);
  changed->set_attempt(changed->attempt() + 1);
  changed->clear_holder();
  changed->clear_relays();
  AssignRelays(shard);
}

// Keeps the relays that can still serve, with their former members, since what they averaged
// stands. The members of other relays send to the shard's new relay, or to its reducer.
void ReductionPlan::AssignRelays(int shard) {
  v1::Shard* changed = plan_.mutable_shards(shard);
  if (!relayed_ || !changed->holder().empty()) return;
  const std::string& at_reducer = GroupOf(changed->reducer());
  std::map<std::string, v1::Relay> kept;  // by group
  for (const v1::Relay& relay : changed->relays()) {
    if (Able(relay.peer()) && shunned_.count(relay.peer()) == 0) {
      kept[contributors_.at(relay.peer()).group] = relay;
    }
  }
  std::map<std::string, std::vector<std::string>> groups;
  for (const std::string& peer : Present()) {
    const std::string& group = contributors_.at(peer).group;
    if (!group.empty() && group != at_reducer) groups[group].push_back(peer);
  }
  changed->clear_relays();
  for (const auto& [group, members] : groups) {
    if (kept.count(group) > 0) {
      *changed->add_relays() = kept.at(group);
      continue;
    }
    std::vector<std::string> able;
    std::copy_if(
        members.begin(), members.end(), std::back_inserter(able), [this](const std::string& peer) {
          return Able(peer) && shunned_.count(peer) == 0 && contributors_.at(peer).may_relay;
        });
    if (members.size() < 2 || able.empty()) continue;
    v1::Relay* relay = changed->add_relays();
    // Each shard gets another relay, so that all peers of a region share the work, or as many of a
    // group as there is work for.
    relay->set_peer(able[static_cast<size_t>(shard) % std::min(able.size(), most_relays_)]);
    relay->set_members(Bitmap(members));
  }
}

std::string ReductionPlan::Bitmap(const std::vector<std::string>& peers) const {
  std::string bitmap(BitmapBytes(static_cast<size_t>(plan_.contributors_size())), '\0');
  for (const std::string& peer : peers) {
    SetBit(&bitmap, static_cast<size_t>(contributors_.at(peer).position));
  }
  return bitmap;
}

void ReductionPlan::Revise() {
  plan_.set_revision(plan_.revision() + 1);
  plan_.clear_lost();
  for (const std::string& peer : lost_) plan_.add_lost(peer);
}

}  // namespace atolld
