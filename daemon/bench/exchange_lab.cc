#include "daemon/bench/exchange_lab.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/cli/lab.h"
#include "daemon/cli/plan_report.h"
#include "membership/history/run_codecs.h"
#include "membership/planning/round_model.h"

namespace atolld {
absl::Status PlaceOnNodes(const LinkModel& links, ExchangeBenchOptions* options) {
  const std::map<std::string, std::string> nodes = LabNodes();
  options->peers = static_cast<int>(links.peers().size());
  options->launcher = OnLabNode("{name}");
  for (const PeerLink& peer : links.peers()) {
    const auto node = nodes.find(peer.name);
    if (node == nodes.end()) {
      return absl::FailedPreconditionError(absl::StrCat("the lab has no node ", peer.name));
    }
    options->names.push_back(peer.name);
    // Behind NAT the address is its router's.
    options->hosts.push_back(peer.reachable ? node->second : "127.0.0.1");
    options->reachable.push_back(peer.reachable);
  }
  return absl::OkStatus();
}

std::optional<ExchangeExpectation> Expect(const LinkModel& links, const LevelCodecs& codecs,
                                          uint64_t elements, uint32_t chunk_elements) {
  const std::vector<std::string> predictable = PredictableCodecs();
  for (const WireCodec& codec : {codecs.updates, codecs.means}) {
    const std::string name = codec.name();  // with zstd it is none of them
    if (std::find(predictable.begin(), predictable.end(), name) == predictable.end()) {
      return std::nullopt;
    }
  }
  const uint64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
  const ExchangeTraffic traffic = TrafficOf(links, PlanShape::kFlat, static_cast<uint32_t>(chunks));
  const EncodedSize size = EncodedSizeOf(elements, chunk_elements, codecs);
  // Bytes without headers, and computers that take no time.
  constexpr double kAtOnce = 1e30;
  const ExchangePrediction ideal =
      PredictExchange(links, traffic, size, {1, 1, kAtOnce, kAtOnce, kAtOnce, kAtOnce, 0, kAtOnce});
  ExchangeExpectation expectation;
  expectation.line_seconds = ideal.lines_seconds;
  expectation.line = ideal.bottleneck;
  expectation.rtt = traffic.rtt;
  expectation.bound_seconds = ideal.lines_seconds + 2 * absl::ToDoubleSeconds(traffic.rtt);
  expectation.predicted = PredictExchange(links, traffic, size, ModelAssumptions());
  return expectation;
}

}  // namespace atolld
