// The network of a run in the lab, as the lab takes it (tests/wan/README.md): the lines of [links],
// and a coordinator without one.
//
// Every peer is a node of its own, called as `atoll local` calls it, with its line up and its line
// down. A packet between two peers takes the delays of both lines; their round trip is twice that.
// Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/experiment/experiment.h"

namespace atolld {

inline constexpr uint32_t kMostLabPeers = 200;  // that a lab has room for

// `seed`: of the losses. Peer k has the line of party k.
std::string LabTopology(const std::vector<LinkKeys>& links, uint32_t peers, uint64_t seed);

}  // namespace atolld
