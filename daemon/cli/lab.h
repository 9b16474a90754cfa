// Lets commands of Atoll use the lab (tests/wan/README.md). The lab consists of private network
// namespaces of this machine with a node for each peer. Packets between nodes are delayed and lost
// as a topology file says.
//
// A program that is to run in the lab is replaced by the lab's program, which makes the network and
// calls the first program again with the same arguments. The variable ATOLL_LAB_NODES then lists
// the nodes: "NAME=ADDRESS ...". When the lab's process ends for any reason, the kernel ends
// everything that runs inside and removes the network. Needs root. Its calls block. Used by one
// thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

// The name of the coordinator's node, which is added to the nodes of the peers.
inline constexpr char kLabCoordinator[] = "coordinator";

// Returns true if this process runs in a lab.
bool InLab();

// Returns the addresses of the lab's nodes by name, or an empty map outside a lab.
std::map<std::string, std::string> LabNodes();

// Returns the words to put before a command so that it runs on this node.
std::vector<std::string> OnLabNode(const std::string& node);

// Returns OK if a lab can be made on this machine. Fails with PERMISSION_DENIED if this process may
// not make namespaces, and with UNAVAILABLE if a program is missing; the message names it and its
// Debian package.
absl::Status CheckLab();

struct LabCall {
  std::string topology;
  // The node on which the program runs; if empty, outside, where it cannot dial any node.
  std::string node;
  bool quiet = false;  // true if the lab prints no report at its end of what each line has carried
};

// Replaces this program by the lab's. Returns only if that fails, with the errors of CheckLab.
absl::Status EnterLab(const LabCall& call);

}  // namespace atolld
