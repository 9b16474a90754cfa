// The peers' containers of a run: whether any of them still runs, and what the others said last.
//
// A container that fails is started again ten times (compose_template.h), so one that is down with
// an error has given up. One that has ended well may know already that the run is sealed. Pure but
// for LastLinesOfPeers, which reads a file; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace atolld {

struct PeerContainer {
  std::string name;              // "atoll-0a1b2c3d-01-fedavg-seed-1-peer-2"
  std::optional<int> exit_code;  // nothing: it runs, or will again
};

// What lists the peers' containers of a project, ended ones too: a line each, its name and how it
// is, like "p-peer-2 Exited (1) 5 seconds ago".
std::vector<std::string> ListPeersCommand(const std::string& project);

// Of what that command printed, by their numbers. Lines that say neither are left out.
std::vector<PeerContainer> ParsePeerList(absl::string_view listing);

// There are some, and none of them runs.
bool AllEnded(const std::vector<PeerContainer>& peers);
// Those of them that have ended did so with an error.
bool AllFailed(const std::vector<PeerContainer>& peers);

// The last line of each peer in the log that `docker compose logs` wrote, in the peers' order;
// empty: it has said nothing, or the log cannot be read.
std::vector<std::string> LastLinesOfPeers(const std::string& log_path,
                                          const std::vector<PeerContainer>& peers);

// "no peer runs any more: peer-1 exited with 1: no data is left; peer-2 exited with 1", in one
// line. `lines` as from LastLinesOfPeers.
std::string DescribeEndedPeers(const std::vector<PeerContainer>& peers,
                               const std::vector<std::string>& lines);

}  // namespace atolld
