#include "daemon/experiment/lab_topology.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/config/config_value.h"
#include "daemon/experiment/compose_file.h"

namespace atolld {
namespace {

// A rate that no process of one machine can fill, for a line that [links] does not limit.
constexpr char kOpenRate[] = "10Gbit";
// The longest wait of a packet before a line, as in containers (configs/docker/entrypoint).
constexpr char kQueue[] = "200ms";

std::string RateOr(uint64_t bytes_per_second) {
  return bytes_per_second == 0 ? kOpenRate : FormatLineRate(bytes_per_second);
}

}  // namespace

std::string LabTopology(const std::vector<LinkKeys>& links, uint32_t peers, uint64_t seed) {
  std::string text = absl::StrCat(
      "# The lines of a run in the lab. Written by `atoll experiment run --in lab`.\n[lab]\nseed "
      "= ",
      seed, "\n\n[region.peer]\npeers = ", peers, "\nrate = \"", kOpenRate, "\"\nqueue = \"",
      kQueue, "\"\n");
  for (uint32_t peer = 1; peer <= peers; ++peer) {
    const LinkKeys* const link = LinkOf(links, absl::StrCat("party-", peer));
    if (link == nullptr) continue;
    // A node's rtt is that between it and the middle: once up and once down.
    absl::StrAppend(&text, "\n[peer.peer-", peer, "]\nup = \"", RateOr(link->up), "\"\ndown = \"",
                    RateOr(link->down), "\"\nrtt = \"", absl::ToInt64Microseconds(2 * link->delay),
                    "us\"\nloss = ", link->loss / 100, "\n");
  }
  return text;
}

}  // namespace atolld
