// What happens to the peers of a local run that its config does not say: how many there are from
// which round on, when one is killed or paused, how fast the line of each is, and how slow its
// machine.
//
// An experiment asks for it. Faults come at equal distances; whom one hits is drawn by SHA-256 of
// the run's seed and the fault's number, so that a repeated experiment draws the same. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/machine_config.h"

namespace atolld {

struct RampStep {
  uint64_t round = 0;  // once that version is committed; 0: from the start
  uint32_t peers = 0;
};

// "20:8,40:4": 8 peers from round 20 on, 4 from round 40 on; "" is no step. INVALID_ARGUMENT: it is
// none of that, or the rounds do not ascend.
absl::StatusOr<std::vector<RampStep>> ParseRamp(absl::string_view text);

// How many peers there are after `version` rounds of a run that began with `first`; and the most
// that there are at any time.
uint32_t PeersAt(const std::vector<RampStep>& ramp, uint64_t version, uint32_t first);
uint32_t MostPeers(const std::vector<RampStep>& ramp, uint32_t first);

// The line of the peers whose names match: "peer-3", or "peer-*", or "*".
struct PeerLine {
  std::string peers;
  uint64_t up = 0;  // bytes a second; 0: no limit
  uint64_t down = 0;
};

// "*=20Mbit/100Mbit,peer-1=2Mbit/": up and down, either may be left out. INVALID_ARGUMENT: it is
// none of that.
absl::StatusOr<std::vector<PeerLine>> ParsePeerLines(absl::string_view text);

// Sets the caps of a peer's line: of those that match, the last one counts.
void LimitLine(const std::vector<PeerLine>& lines, absl::string_view peer, MachineConfig* machine);

// "1,2,4,8": how many times slower than this machine that of each peer is, from 1 on; "" is none.
// INVALID_ARGUMENT: it is none of that.
absl::StatusOr<std::vector<double>> ParseSpeeds(absl::string_view text);

// Of "peer-3": the third; `speeds`, which has some, are of the peers in turn.
double SpeedOf(const std::vector<double>& speeds, absl::string_view peer);

// Whether `name` matches a pattern in which '*' stands for any characters.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Which of `count` peers fault number `fault` hits. `count` is above 0.
size_t DrawVictim(uint64_t seed, absl::string_view kind, uint64_t fault, size_t count);

struct LocalPlan {
  std::vector<RampStep> ramp;
  std::vector<PeerLine> lines;
  std::vector<double> speeds;                         // none: as the config says
  absl::Duration kill_every = absl::ZeroDuration();   // zero: never
  absl::Duration pause_every = absl::ZeroDuration();  // zero: never
  absl::Duration down = absl::Seconds(10);            // how long one that was hit is away
};

}  // namespace atolld
