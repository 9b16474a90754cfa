// The peers of this machine as their owner names them: the folder that is meant, what the daemon
// there says, and how that is shown.
//
// FindPeerFolder and RunningPeers read folders and /proc and block; the rest is pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/machine.pb.h"
#include "daemon/machine/owner_control.h"

namespace atolld {

// Whether a peer works, or worked, in this folder.
bool IsPeerFolder(const std::string& dir);

// Folders of the daemons of peers that this user runs on this machine, sorted. A folder whose path
// is no address of a socket is not among them (worker_socket.h). `root` stands before /proc.
std::vector<std::string> RunningPeers(const std::string& root = "");

// `named` where it is not empty; else `current` if it is a peer's; else the one peer of `running`.
// INVALID_ARGUMENT lists what could be meant.
absl::StatusOr<std::string> FindPeerFolder(const std::string& named, const std::string& current,
                                           const std::vector<std::string>& running);

// `running`: a daemon answered; else the status holds what its folder says.
struct OwnMachine {
  std::string dir;
  bool running = false;
  v1::MachineStatus status;
};

// What DIR/owner.state says of a peer that does not run, as a daemon would tell it.
v1::MachineStatus StatusOfFolder(const OwnerState& state);

nlohmann::ordered_json MachineJson(const OwnMachine& machine);
// One screen. Times are of `zone`.
std::vector<std::string> MachineText(const OwnMachine& machine, absl::Time now,
                                     const absl::TimeZone& zone);
nlohmann::ordered_json LimitsJson(const v1::MachineStatus& status);
std::vector<std::string> LimitsText(const v1::MachineStatus& status);

}  // namespace atolld
