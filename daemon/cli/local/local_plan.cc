#include "daemon/cli/local/local_plan.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_value.h"
#include "daemon/config/worker_program.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

constexpr size_t kMostShown = 64;      // characters of a wrong text in a message
constexpr uint32_t kMostPeers = 1024;  // as [run] peers

absl::StatusOr<uint64_t> CapOf(absl::string_view rate) {
  if (rate.empty()) return 0;
  ASSIGN_OR_RETURN(const double bytes, ParseRate(rate));
  return static_cast<uint64_t>(bytes);
}

// Returns the place of a peer in a list of `count` entries, which is repeated.
size_t PlaceInList(absl::string_view peer, size_t count) {
  uint32_t number = 0;
  const bool numbered = absl::SimpleAtoi(peer.substr(peer.rfind('-') + 1), &number) && number > 0;
  return numbered ? (number - 1) % count : 0;
}

}  // namespace

absl::StatusOr<std::vector<RampStep>> ParseRamp(absl::string_view text) {
  std::vector<RampStep> ramp;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    RampStep step;
    if (!absl::SimpleAtoi(halves.first, &step.round) ||
        !absl::SimpleAtoi(halves.second, &step.peers) || step.peers == 0 ||
        step.peers > kMostPeers) {
      return absl::InvalidArgumentError(
          absl::StrCat("a step of a ramp is ROUND:PEERS, whole numbers, with 1 to ", kMostPeers,
                       " peers, like 20:8, not '", OneLine(part, kMostShown), "'"));
    }
    if (!ramp.empty() && step.round <= ramp.back().round) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the rounds of a ramp must ascend: ", step.round, " comes after ", ramp.back().round));
    }
    ramp.push_back(step);
  }
  return ramp;
}

uint32_t PeersAt(const std::vector<RampStep>& ramp, uint64_t version, uint32_t first) {
  uint32_t peers = first;
  for (const RampStep& step : ramp) {
    if (step.round <= version) peers = step.peers;
  }
  return peers;
}

uint32_t MostPeers(const std::vector<RampStep>& ramp, uint32_t first) {
  uint32_t most = first;
  for (const RampStep& step : ramp) most = std::max(most, step.peers);
  return most;
}

absl::StatusOr<std::vector<PeerLine>> ParsePeerLines(absl::string_view text) {
  std::vector<PeerLine> lines;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (halves.first.empty() || !absl::StrContains(halves.second, '/')) {
      return absl::InvalidArgumentError(
          absl::StrCat("a line is PEERS=UP/DOWN, like peer-1=2Mbit/20Mbit or *=20Mbit/, not '",
                       OneLine(part, kMostShown), "'"));
    }
    const std::pair<absl::string_view, absl::string_view> rates =
        absl::StrSplit(halves.second, absl::MaxSplits('/', 1));
    PeerLine line;
    line.peers = std::string(halves.first);
    ASSIGN_OR_RETURN(line.up, CapOf(rates.first));
    ASSIGN_OR_RETURN(line.down, CapOf(rates.second));
    lines.push_back(std::move(line));
  }
  return lines;
}

absl::StatusOr<std::vector<double>> ParseSpeeds(absl::string_view text) {
  std::vector<double> speeds;
  if (absl::StripAsciiWhitespace(text).empty()) return speeds;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double slower = 0;
    // A comparison with what is no number fails.
    if (!absl::SimpleAtod(part, &slower) || !(slower >= 1 && slower <= kMostSlower)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "speeds say how many times slower each machine is, numbers from 1 to ", kMostSlower,
          " with commas between, like 1,2,4,8, not '", OneLine(part, kMostShown), "'"));
    }
    speeds.push_back(slower);
  }
  if (speeds.size() > kMostPeers) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", speeds.size(), " speeds, and at most ", kMostPeers, " peers"));
  }
  return speeds;
}

absl::StatusOr<std::vector<uint32_t>> ParseLoraRanks(absl::string_view text) {
  std::vector<uint32_t> ranks;
  if (absl::StripAsciiWhitespace(text).empty()) return ranks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    uint32_t rank = 0;
    if (!absl::SimpleAtoi(part, &rank)) {
      return absl::InvalidArgumentError(
          absl::StrCat("ranks are whole numbers with commas between, like 4,8,16, not '",
                       OneLine(part, kMostShown), "'"));
    }
    ranks.push_back(rank);
  }
  if (ranks.size() > kMostPeers) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", ranks.size(), " ranks, and at most ", kMostPeers, " peers"));
  }
  return ranks;
}

double SpeedOf(const std::vector<double>& speeds, absl::string_view peer) {
  return speeds[PlaceInList(peer, speeds.size())];
}

uint32_t LoraRankOf(const std::vector<uint32_t>& ranks, absl::string_view peer) {
  return ranks[PlaceInList(peer, ranks.size())];
}

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  const size_t star = pattern.find('*');
  if (star == absl::string_view::npos) return pattern == name;
  if (!absl::ConsumePrefix(&name, pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  for (size_t skipped = 0; skipped <= name.size(); ++skipped) {
    if (MatchesPattern(pattern, name.substr(skipped))) return true;
  }
  return false;
}

void LimitLine(const std::vector<PeerLine>& lines, absl::string_view peer, MachineConfig* machine) {
  for (const PeerLine& line : lines) {
    if (!MatchesPattern(line.peers, peer)) continue;
    machine->up_cap = line.up;
    machine->down_cap = line.down;
  }
}

size_t DrawVictim(uint64_t seed, absl::string_view kind, uint64_t fault, size_t count) {
  DigestBuilder builder("atoll.local.fault.1");
  const std::string digest = ToBytes(builder.Bytes(kind).U64(seed).U64(fault).Finish());
  uint64_t draw = 0;
  for (size_t i = 0; i < sizeof draw; ++i) {
    draw = draw << 8 | static_cast<unsigned char>(digest[i]);
  }
  return static_cast<size_t>(draw % count);  // the bias is 2^-54 at most
}

}  // namespace atolld
