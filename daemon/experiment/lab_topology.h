// Writes the network of a run in the lab's format (tests/wan/README.md): the peers' lines from
// [links], and a coordinator whose line is not limited.
//
// Every peer is a node of its own, with the name that `atoll local` gives it and with its line up
// and down. A packet between two peers is delayed by the sum of both lines' delays, so a round trip
// takes twice that sum. Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/experiment/experiment.h"

namespace atolld {

inline constexpr uint32_t kMostLabPeers = 200;  // the most peers that a lab can have

// Returns the text of the topology file. `seed` is the seed of the losses of packets. Peer k has
// the line of party k.
std::string LabTopology(const std::vector<LinkKeys>& links, uint32_t peers, uint64_t seed);

}  // namespace atolld
