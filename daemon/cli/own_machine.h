// The peers of this machine, for the verbs that their owner uses: finds the folder of the peer that
// is meant, and formats the status and the limits of its daemon.
//
// IsPeerFolder, FindPeerFolder and RunningPeers read folders and /proc, and block. The other
// functions are pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/machine.pb.h"
#include "daemon/machine/owner_control.h"

namespace atolld {

// Returns true if a peer works, or worked, in this folder.
bool IsPeerFolder(const std::string& dir);

// Returns the folders of the peers' daemons that this user runs on this machine, sorted. A folder
// whose path is too long for the address of a socket is left out (worker_socket.h). `root` is a
// prefix of the path /proc, for tests.
std::vector<std::string> RunningPeers(const std::string& root = "");

// Returns `named` if it is not empty; otherwise `current` if it is a peer's folder; otherwise the
// folder in `running` if there is exactly one. Fails with INVALID_ARGUMENT if `named` is not a
// peer's folder, or if none of these applies; the message then lists the candidates.
absl::StatusOr<std::string> FindPeerFolder(const std::string& named, const std::string& current,
                                           const std::vector<std::string>& running);

// The status of a peer. If `running` is true, its daemon has given it; otherwise it was read from
// the peer's folder.
struct OwnMachine {
  std::string dir;
  bool running = false;
  v1::MachineStatus status;
  int64_t silent_pid = 0;  // the pid of a daemon that runs without its socket; 0 if there is none
};

// Returns the status of a peer that does not run, from the contents of DIR/owner.state, in the form
// of a daemon's answer.
v1::MachineStatus StatusOfFolder(const OwnerState& state);

// Returns the message about a daemon that runs but whose socket is missing.
std::string WithoutSocket(int64_t pid);

nlohmann::ordered_json MachineJson(const OwnMachine& machine);
// Returns lines that fit one screen. Times are in `zone`.
std::vector<std::string> MachineText(const OwnMachine& machine, absl::Time now,
                                     const absl::TimeZone& zone);
nlohmann::ordered_json LimitsJson(const v1::MachineStatus& status);
std::vector<std::string> LimitsText(const v1::MachineStatus& status);

}  // namespace atolld
