#include "membership/planning/round_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// The longest that any line is busy with such traffic, and which it is.
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

double BytesOf(const EncodedSize& size, const Share& share) {
  return share.updates * size.update_bytes + share.means * size.mean_bytes;
}

ExchangePrediction PredictExchange(const LinkModel& links, const ExchangeTraffic& traffic,
                                   const EncodedSize& size, const ModelAssumptions& assumed) {
  ExchangePrediction result;
  const EncodedSize on_lines = {size.parameters, size.update_bytes / assumed.line_share,
                                size.mean_bytes / assumed.line_share};
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
    const double bytes =
        std::max(stream.share.updates * size.update_bytes, stream.share.means * size.mean_bytes);
    const double windows = bytes / assumed.first_window_bytes;
    result.streams_seconds = std::max(result.streams_seconds,
                                      absl::ToDoubleSeconds(stream.rtt) * std::log2(1 + windows));
  }

  const double floats = static_cast<double>(size.parameters) * sizeof(float);
  size_t hardest = 0;
  for (size_t i = 0; i < traffic.decoded.size(); ++i) {
    const double seconds = floats * (traffic.decoded[i] / assumed.decode_bytes_per_second +
                                     traffic.encoded[i] / assumed.encode_bytes_per_second);
    if (seconds > result.processor_seconds) hardest = i;
    result.processor_seconds = std::max(result.processor_seconds, seconds);
  }
  result.round_trips_seconds = absl::ToDoubleSeconds(traffic.rtt + links.CoordinatorRtt());
  result.before_and_after_seconds =
      floats / assumed.encode_bytes_per_second + floats / assumed.decode_bytes_per_second +
      (size.update_bytes + size.mean_bytes) / assumed.hash_bytes_per_second;

  double transfer = result.lines_seconds;
  result.bottleneck = busiest.line;
  const auto limit = [&](double seconds, const std::string& name) {
    if (seconds <= transfer) return;
    transfer = seconds;
    result.bottleneck = name;
  };
  limit(result.stages_seconds, slowest.line);  // stages wait on lines too
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
