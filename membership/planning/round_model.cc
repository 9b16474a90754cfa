#include "membership/planning/round_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {
namespace {

struct Shard {
  size_t reducer = 0;
  uint32_t chunks = 0;
};

std::vector<Shard> ShardsOf(uint32_t chunks, const std::vector<double>& bandwidths) {
  const std::vector<uint32_t> counts = SplitChunks(chunks, ShardWeights(bandwidths));
  std::vector<Shard> shards;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) shards.push_back({i, counts[i]});
  }
  return shards;
}

// Adds up the traffic of the contributions; the means return by the same route.
class Builder {
 public:
  Builder(const LinkModel& links, PlanShape shape, uint32_t chunks, const Grouping& grouping)
      : links_(links),
        chunks_(chunks),
        relayed_(ByRegion(shape) || grouping.any()),
        grouping_(grouping) {
    const std::vector<PeerLink>& peers = links.peers();
    farthest_.resize(links.regions().size());
    for (const PeerLink& peer : peers) {
      farthest_[peer.region] = std::max(farthest_[peer.region], peer.delay);
    }
    MakeGroups();
    traffic_.shape = shape;
    traffic_.decoded.assign(peers.size(), 0);
    traffic_.encoded.assign(peers.size(), 0);
    traffic_.ends.assign(peers.size(), 0);
    for (StageTraffic* stage : {&to_relays_, &to_reducers_}) {
      *stage = {std::vector<Share>(peers.size()), std::vector<Share>(peers.size()),
                std::vector<Share>(links.links().size())};
    }
  }

  void Add(const Shard& shard, size_t number) {
    const double share = static_cast<double>(shard.chunks) / chunks_;
    const size_t home = group_of_[shard.reducer];
    traffic_.longest_shard = std::max(traffic_.longest_shard, shard.chunks);
    traffic_.encoded[shard.reducer] += share;
    ++traffic_.reducers;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      if (group.members.empty()) continue;
      const bool close = grouping_.any() || links_.close(group.region);
      const bool relayed =
          relayed_ && g != home && close && group.members.size() >= 2 && !group.able.empty();
      if (relayed) {
        const size_t most = grouping_.any() ? grouping_.relays : group.able.size();
        const size_t relay = group.able[number % std::min(most, group.able.size())];
        AddRelayed(g, share, relay, shard.reducer);
      } else {
        AddDirect(g, share, shard.reducer);
      }
    }
  }

  ExchangeTraffic Finish() {
    // The traffic of each member of a group was noted once for the group.
    for (size_t i = 0; i < links_.peers().size(); ++i) {
      if (!links_.peers()[i].contributes) continue;
      const Group& group = groups_[group_of_[i]];
      to_relays_.up[i] += Update(i, group.to_relays);
      to_reducers_.up[i] += Update(i, group.to_reducers);
      traffic_.ends[i] += group.dialled.size() - group.dialled.count(i);
    }
    for (const auto& [ends, sent] : sent_) {
      if (ends.first != ends.second) {
        traffic_.between_regions += sent;
        traffic_.between_regions.means += sent.all();  // the means that come back
      }
      for (const size_t link : links_.Route(ends.first, ends.second)) {
        to_reducers_.link[link] += sent;
      }
    }
    const bool relayed = traffic_.relays > 0;
    if (relayed) traffic_.stages.push_back(to_relays_);
    traffic_.stages.push_back(to_reducers_);
    traffic_.stages.push_back(Back(to_reducers_));
    if (relayed) traffic_.stages.push_back(Back(to_relays_));
    return std::move(traffic_);
  }

 private:
  // Peers that average first, or that may: a region, or a part of one.
  struct Group {
    size_t region = 0;
    std::vector<size_t> members;
    std::vector<size_t> able;  // the members that can relay
    size_t slow = 0;           // the members with slow lines
    // The traffic of each member in the two stages.
    double to_relays = 0;
    double to_reducers = 0;
    std::set<size_t> dialled{};  // the reducers and relays that its members dial
  };

  void MakeGroups() {
    const std::vector<PeerLink>& peers = links_.peers();
    std::vector<std::string> names;
    for (const PeerLink& peer : peers) names.push_back(links_.regions()[peer.region]);
    if (grouping_.any()) {
      // A plan's groups consist of contributors. A peer that only reduces is in no group.
      std::vector<std::string> of_contributors;
      for (size_t i = 0; i < peers.size(); ++i) {
        if (peers[i].contributes) of_contributors.push_back(names[i]);
      }
      of_contributors = GroupsOf(grouping_, of_contributors);
      auto next = of_contributors.begin();
      for (size_t i = 0; i < peers.size(); ++i) {
        if (peers[i].contributes) names[i] = *next++;
      }
    }
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i < peers.size(); ++i) {
      const auto [found, fresh] = numbers.emplace(names[i], groups_.size());
      if (fresh) groups_.push_back({peers[i].region, {}, {}});
      Group& group = groups_[found->second];
      group_of_.push_back(found->second);
      if (peers[i].contributes) group.members.push_back(i);
      if (peers[i].contributes && peers[i].slow) ++group.slow;
      if (peers[i].contributes && peers[i].reachable) group.able.push_back(i);
    }
  }

  // Returns this share of the peer's own update.
  Share Update(size_t peer, double share) const {
    return links_.peers()[peer].slow ? Share{0, 0, share} : Share{share, 0, 0};
  }

  // Returns this share of each member's update, except that of the member that keeps its own.
  Share UpdatesOf(const Group& group, double share, std::optional<size_t> but) const {
    const bool slow = but && links_.peers()[*but].slow;
    const size_t slow_ones = group.slow - (slow ? 1 : 0);
    const size_t usual = group.members.size() - group.slow - (but && !slow ? 1 : 0);
    return {static_cast<double>(usual) * share, 0, static_cast<double>(slow_ones) * share};
  }

  // Adds the traffic if every member of the group sends its share to the reducer.
  void AddDirect(size_t g, double share, size_t reducer) {
    Group& group = groups_[g];
    const size_t home = links_.peers()[reducer].region;
    const size_t count = group.members.size();
    const bool own = g == group_of_[reducer] && links_.peers()[reducer].contributes;
    const size_t senders = own ? count - 1 : count;
    const Share updates = UpdatesOf(group, share, own ? std::optional(reducer) : std::nullopt);
    group.to_reducers += share;
    if (own) to_reducers_.up[reducer] += Update(reducer, -share);  // its own share stays
    if (group.dialled.insert(reducer).second) traffic_.ends[reducer] += senders;
    to_reducers_.down[reducer] += updates;
    traffic_.decoded[reducer] += static_cast<double>(count) * share;
    sent_[{group.region, home}] += updates;
    if (senders > 0) {
      traffic_.rtt =
          std::max(traffic_.rtt, NoteStream(group.region, home, StreamOf(updates, share)));
    }
  }

  // Adds the traffic if every other member of the group sends its share to the relay, which sends
  // one on.
  void AddRelayed(size_t g, double share, size_t relay, size_t reducer) {
    Group& group = groups_[g];
    const size_t home = links_.peers()[reducer].region;
    const double count = static_cast<double>(group.members.size());
    ++traffic_.relays;
    group.to_relays += share;
    if (group.dialled.insert(relay).second) traffic_.ends[relay] += group.members.size() - 1;
    ++traffic_.ends[relay];
    ++traffic_.ends[reducer];
    const Share updates = UpdatesOf(group, share, relay);
    to_relays_.up[relay] += Update(relay, -share);
    to_relays_.down[relay] += updates;
    to_reducers_.up[relay].means += share;
    to_reducers_.down[reducer].means += share;
    traffic_.decoded[relay] += count * share;
    traffic_.encoded[relay] += share;
    traffic_.decoded[reducer] += share;
    sent_[{group.region, home}].means += share;
    const Share stream = StreamOf(updates, share);
    traffic_.rtt = std::max(traffic_.rtt, NoteStream(group.region, group.region, stream) +
                                              NoteStream(group.region, home, {0, share}));
  }

  // Returns what the largest streams of such updates carry.
  static Share StreamOf(const Share& updates, double share) {
    return {updates.updates > 0 ? share : 0, share, updates.slow_updates > 0 ? share : 0};
  }

  // Notes the longest round trip that such a stream may have. The return traffic is means.
  absl::Duration NoteStream(size_t from, size_t to, const Share& share) {
    StreamTraffic& stream = traffic_.streams[{from, to}];
    stream.share.updates = std::max(stream.share.updates, share.updates);
    stream.share.means = std::max(stream.share.means, share.means);
    stream.share.slow_updates = std::max(stream.share.slow_updates, share.slow_updates);
    stream.rtt = 2 * (farthest_[from] + links_.Delay(from, to) + farthest_[to]);
    return stream.rtt;
  }

  // Returns the traffic of the return way: an update or a partial mean that goes up comes down as a
  // mean. Links come in pairs, one for each direction.
  static StageTraffic Back(const StageTraffic& stage) {
    StageTraffic back{stage.down, stage.up, stage.link};
    for (std::vector<Share>* shares : {&back.up, &back.down, &back.link}) {
      for (Share& share : *shares) share = {0, share.all(), 0};
    }
    for (size_t link = 0; link + 1 < back.link.size(); link += 2) {
      std::swap(back.link[link], back.link[link + 1]);
    }
    return back;
  }

  const LinkModel& links_;
  const double chunks_;
  const bool relayed_;
  const Grouping grouping_;
  std::vector<absl::Duration> farthest_;  // by region
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;  // by peer
  std::map<std::pair<size_t, size_t>, Share> sent_;
  StageTraffic to_relays_, to_reducers_;
  ExchangeTraffic traffic_;
};

// The line that such traffic keeps busy longest, and its time.
struct Busiest {
  double seconds = 0;
  std::string line;
};

Busiest BusiestLine(const LinkModel& links, const StageTraffic& traffic, const EncodedSize& size,
                    double link_share) {
  double longest = 0;
  enum { kUp, kDown, kLink } kind = kUp;
  size_t index = 0;
  const auto consider = [&](const Share& share, double rate, auto which, size_t i) {
    const double bytes = BytesOf(size, share);
    if (bytes <= longest * rate) return;
    longest = bytes / rate;
    kind = which;
    index = i;
  };
  const std::vector<PeerLink>& peers = links.peers();
  for (size_t i = 0; i < peers.size(); ++i) {
    consider(traffic.up[i], peers[i].up, kUp, i);
    consider(traffic.down[i], peers[i].down, kDown, i);
  }
  for (size_t i = 0; i < links.links().size(); ++i) {
    consider(traffic.link[i], links.links()[i].rate * link_share, kLink, i);
  }
  if (longest <= 0) return {};
  if (kind == kLink) return {longest, absl::StrCat("link ", links.links()[index].name)};
  return {longest, absl::StrCat(peers[index].name, kind == kUp ? " up" : " down")};
}

StageTraffic SumOfStages(const std::vector<StageTraffic>& stages) {
  StageTraffic sum = stages.front();
  const auto add = [](std::vector<Share>& to, const std::vector<Share>& more) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += more[i];
  };
  for (size_t stage = 1; stage < stages.size(); ++stage) {
    add(sum.up, stages[stage].up);
    add(sum.down, stages[stage].down);
    add(sum.link, stages[stage].link);
  }
  return sum;
}

}  // namespace

Share& Share::operator+=(const Share& more) {
  updates += more.updates;
  means += more.means;
  slow_updates += more.slow_updates;
  return *this;
}

absl::string_view PlanShapeName(PlanShape shape) {
  switch (shape) {
    case PlanShape::kFlat:
      return "flat";
    case PlanShape::kWeighted:
      return "weighted";
    case PlanShape::kRegions:
      return "regions";
    case PlanShape::kWeightedRegions:
      return "weighted-regions";
  }
  return "";
}

std::vector<double> RatesOf(const LinkModel& links, PlanShape shape) {
  const std::vector<PeerLink>& peers = links.peers();
  std::vector<double> rates;
  for (const PeerLink& peer : peers) {
    const double known = Weighted(shape) ? std::min(peer.up, peer.down) : 1;
    rates.push_back(peer.reachable || peers.size() == 1 ? known : 0);
  }
  return rates;
}

ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks) {
  return TrafficOf(links, shape, chunks, RatesOf(links, shape));
}

ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks,
                          const std::vector<double>& bandwidths, const Grouping& grouping) {
  Builder builder(links, shape, chunks, grouping);
  const std::vector<Shard> shards = ShardsOf(chunks, bandwidths);
  for (size_t number = 0; number < shards.size(); ++number) builder.Add(shards[number], number);
  return builder.Finish();
}

double BytesOf(const EncodedSize& size, const Share& share) {
  return share.updates * size.update_bytes + share.slow_updates * size.slow_bytes +
         share.means * size.mean_bytes;
}

ExchangePrediction PredictExchange(const LinkModel& links, const ExchangeTraffic& traffic,
                                   const EncodedSize& size, const ModelAssumptions& assumed) {
  ExchangePrediction result;
  const EncodedSize on_lines = {size.parameters, size.update_bytes / assumed.line_share,
                                size.mean_bytes / assumed.line_share,
                                size.slow_bytes / assumed.line_share};
  const StageTraffic all = SumOfStages(traffic.stages);
  const Busiest busiest = BusiestLine(links, all, on_lines, assumed.link_share);
  result.lines_seconds = busiest.seconds;

  double sum = 0;
  Busiest slowest;
  for (const StageTraffic& stage : traffic.stages) {
    const Busiest of_stage = BusiestLine(links, stage, on_lines, assumed.link_share);
    sum += of_stage.seconds;
    if (of_stage.seconds > slowest.seconds) slowest = of_stage;
  }
  const double steps = std::max<double>(1, traffic.longest_shard);
  result.stages_seconds = (sum + (steps - 1) * slowest.seconds) / steps;

  for (const auto& [ends, stream] : traffic.streams) {
    const double bytes = std::max({stream.share.updates * size.update_bytes,
                                   stream.share.slow_updates * size.slow_bytes,
                                   stream.share.means * size.mean_bytes});
    const double windows = bytes / assumed.first_window_bytes;
    result.streams_seconds = std::max(result.streams_seconds,
                                      absl::ToDoubleSeconds(stream.rtt) * std::log2(1 + windows));
  }

  const double floats = static_cast<double>(size.parameters) * sizeof(float);
  size_t hardest = 0;
  for (size_t i = 0; i < traffic.decoded.size(); ++i) {
    const double seconds = floats * (traffic.decoded[i] / assumed.decode_bytes_per_second +
                                     traffic.encoded[i] / assumed.encode_bytes_per_second) +
                           static_cast<double>(traffic.ends[i]) * assumed.stream_seconds;
    if (seconds > result.processor_seconds) hardest = i;
    result.processor_seconds = std::max(result.processor_seconds, seconds);
  }
  result.round_trips_seconds = absl::ToDoubleSeconds(traffic.rtt + links.CoordinatorRtt());
  result.before_and_after_seconds =
      floats / assumed.encode_bytes_per_second + floats / assumed.decode_bytes_per_second +
      (size.update_bytes + size.mean_bytes) / assumed.hash_bytes_per_second;
  result.handover_seconds =
      floats / assumed.encode_bytes_per_second + size.update_bytes / assumed.hash_bytes_per_second;

  double transfer = result.lines_seconds;
  result.bottleneck = busiest.line;
  const auto limit = [&](double seconds, const std::string& name) {
    if (seconds <= transfer) return;
    transfer = seconds;
    result.bottleneck = name;
  };
  limit(result.stages_seconds, slowest.line);  // stages also wait on lines
  limit(result.streams_seconds, "streams");
  if (!links.peers().empty()) {
    limit(result.processor_seconds, absl::StrCat("processor of ", links.peers()[hardest].name));
  }
  result.seconds = result.before_and_after_seconds + transfer + result.round_trips_seconds;

  const auto contributors = static_cast<double>(links.contributors());
  for (size_t i = 0; i < all.up.size(); ++i) {
    const double bytes = BytesOf(size, all.up[i]);
    result.most_bytes_sent = std::max(result.most_bytes_sent, bytes);
    if (!links.peers()[i].contributes) continue;
    result.mean_bytes_sent += bytes / contributors;
  }
  result.bytes_between_regions = BytesOf(size, traffic.between_regions);
  for (const Share& share : all.link) result.link_bytes.push_back(BytesOf(size, share));
  return result;
}

double ComputeUtilisation(double train_seconds, double exchange_seconds) {
  const double round = train_seconds + exchange_seconds;
  return round > 0 ? train_seconds / round : 1;
}

}  // namespace atolld
