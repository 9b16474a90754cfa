// The container engine of this machine: finds it, and examines the peers' containers of a run,
// whether any of them still runs, how the others ended, and their last lines of output.
//
// The engine is Docker with Compose v2 (`docker compose`) or with docker-compose 1.29. Its programs
// are looked for in PATH and are run as a user would run them.
//
// A container that fails is started again ten times (compose_template.h), so a container that is
// down with an error will not be started again. A container that exits with code 0 may have seen
// the seal before we did, so it is not a failure. The functions are pure except for
// FindComposeEngine, which runs the engine's programs, and LastLinesOfPeers, which reads a file;
// both block. May be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// The image of the containers that `atoll experiment compose` writes.
inline constexpr char kContainerImage[] = "atoll:local";

// Returns the words that begin every command of Compose on this machine. Fails with UNAVAILABLE if
// no engine answers or if it has no Compose, and with NOT_FOUND if it has no image of Atoll; the
// message says what to do.
absl::StatusOr<std::vector<std::string>> FindComposeEngine();

struct PeerContainer {
  std::string name;              // "atoll-0a1b2c3d-01-fedavg-seed-1-peer-2"
  std::optional<int> exit_code;  // not set if the container runs or will be started again
};

// Returns the command that lists the peers' containers of a project, including ended ones. It
// prints one line for each with its name and state, such as "p-peer-2 Exited (1) 5 seconds ago".
std::vector<std::string> ListPeersCommand(const std::string& project);

// Parses the output of that command. The result is sorted by the peers' numbers. Lines without a
// name or a state are ignored.
std::vector<PeerContainer> ParsePeerList(absl::string_view listing);

// Returns true if there are containers and none of them runs.
bool AllEnded(const std::vector<PeerContainer>& peers);
// Returns true if every container has ended with an exit code other than 0.
bool AllFailed(const std::vector<PeerContainer>& peers);

// Returns the last line of each peer in the log that `docker compose logs` wrote, in the order of
// `peers`. A line is empty if the peer has written nothing or the log cannot be read.
std::vector<std::string> LastLinesOfPeers(const std::string& log_path,
                                          const std::vector<PeerContainer>& peers);

// Returns one line: "no peer runs any more: peer-1 exited with 1: no data is left; peer-2 exited
// with 1". `lines` is the result of LastLinesOfPeers.
std::string DescribeEndedPeers(const std::vector<PeerContainer>& peers,
                               const std::vector<std::string>& lines);

}  // namespace atolld
