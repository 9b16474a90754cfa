// The plan of events for the peers of a local run, which its config does not hold: how many peers
// run from which round on, when one is killed or paused, how fast each peer's line is, and how slow
// its machine is.
//
// Experiments use such plans. Faults come at equal intervals. The peer that a fault hits is drawn
// with SHA-256 from the run's seed and the fault's number, so that a repeated experiment hits the
// same peers. Pure. May be called from any thread.
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
  uint64_t round = 0;  // the step begins once this version is committed; 0 means at the start
  uint32_t peers = 0;
};

// Parses "20:8,40:4": 8 peers from round 20 on, 4 from round 40 on. An empty text has no steps.
// Fails with INVALID_ARGUMENT if the form is wrong or the rounds do not ascend.
absl::StatusOr<std::vector<RampStep>> ParseRamp(absl::string_view text);

// PeersAt returns the number of peers after `version` rounds of a run that begins with `first`
// peers. MostPeers returns the largest number of peers at any time.
uint32_t PeersAt(const std::vector<RampStep>& ramp, uint64_t version, uint32_t first);
uint32_t MostPeers(const std::vector<RampStep>& ramp, uint32_t first);

// The line of all peers whose names match the pattern `peers`: "peer-3", "peer-*" or "*".
struct PeerLine {
  std::string peers;
  uint64_t up = 0;  // bytes a second; 0 means no limit
  uint64_t down = 0;
};

// Parses "*=20Mbit/100Mbit,peer-1=2Mbit/": the rates up and down, each of which may be left out.
// Fails with INVALID_ARGUMENT if the form is wrong.
absl::StatusOr<std::vector<PeerLine>> ParsePeerLines(absl::string_view text);

// Sets the caps of a peer's line in `machine` by the last of `lines` that matches its name.
void LimitLine(const std::vector<PeerLine>& lines, absl::string_view peer, MachineConfig* machine);

// Parses "1,2,4,8": how many times slower than this machine each peer's machine is, at least 1. An
// empty text is an empty list. Fails with INVALID_ARGUMENT if the form is wrong.
absl::StatusOr<std::vector<double>> ParseSpeeds(absl::string_view text);

// Parses "4,8,16": how many ranks of the adapters each peer trains; 0 means all. An empty text is
// an empty list. Fails with INVALID_ARGUMENT if the form is wrong.
absl::StatusOr<std::vector<uint32_t>> ParseLoraRanks(absl::string_view text);

// Return the entry of a peer in a list: for "peer-3" the third. A list that is too short is
// repeated; it must not be empty.
double SpeedOf(const std::vector<double>& speeds, absl::string_view peer);
uint32_t LoraRankOf(const std::vector<uint32_t>& ranks, absl::string_view peer);

// Returns true if `name` matches a pattern in which '*' means any characters.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Returns the index of the peer, of `count` peers, that fault number `fault` of this kind hits.
// `count` must be above 0.
size_t DrawVictim(uint64_t seed, absl::string_view kind, uint64_t fault, size_t count);

struct LocalPlan {
  std::vector<RampStep> ramp;
  std::vector<PeerLine> lines;
  // How many times slower each machine is; if empty, as in the config.
  std::vector<double> speeds;
  std::vector<uint32_t> lora_ranks;                   // of each peer; if empty, as in the config
  absl::Duration kill_every = absl::ZeroDuration();   // zero means never
  absl::Duration pause_every = absl::ZeroDuration();  // zero means never
  // The time for which a peer that was hit is away.
  absl::Duration down = absl::Seconds(10);
};

}  // namespace atolld
