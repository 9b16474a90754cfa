// The lab (tests/wan/README.md) as a command of ours enters it: private namespaces of this machine
// with a node a peer, between which packets take as long, and get lost as often, as a topology
// says.
//
// A program that is to run there becomes the lab, which makes the network and calls the program
// once more, as it was called. The lab tells it of its nodes by ATOLL_LAB_NODES, "NAME=ADDRESS
// ...". When the lab's process ends, however it ends, the kernel ends all that runs in there and
// takes the network away. Needs root. One thread; blocking.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

// The node that stands beside the peers.
inline constexpr char kLabCoordinator[] = "coordinator";

// The lab runs this process.
bool InLab();

// The addresses of its nodes, by name; none outside.
std::map<std::string, std::string> LabNodes();

// What a command begins with that is to run on that node.
std::vector<std::string> OnLabNode(const std::string& node);

// Whether this machine can hold a lab. PERMISSION_DENIED: this process may not make namespaces.
// UNAVAILABLE: what is missing, and which Debian package has it.
absl::Status CheckLab();

struct LabCall {
  std::string topology;
  std::string node;    // on which the program runs; empty: beside them, where none can be dialled
  bool quiet = false;  // the lab does not tell at its end what each line has carried
};

// Becomes the lab. Returns only if that cannot be, with CheckLab's errors.
absl::Status EnterLab(const LabCall& call);

}  // namespace atolld
