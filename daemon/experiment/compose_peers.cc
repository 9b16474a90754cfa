#include "daemon/experiment/compose_peers.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "daemon/experiment/compose_engine.h"

namespace atolld {
namespace {

constexpr size_t kMostOfLine = 300;  // bytes of a peer's last line that an error shows
constexpr absl::string_view kExited = "Exited (";

// Returns "peer-2" from a container's name, in which Compose v2 has a hyphen and docker-compose
// 1.29 an underscore.
std::string PeerNameOf(absl::string_view name) {
  const size_t at = name.find_last_of("-_");
  return absl::StrCat("peer-", at == absl::string_view::npos ? name : name.substr(at + 1));
}

int NumberOf(const PeerContainer& peer) {
  int number = 0;
  return absl::SimpleAtoi(absl::StripPrefix(PeerNameOf(peer.name), "peer-"), &number) ? number : 0;
}

// Parses "Exited (137) 4 seconds ago" or "Dead"; any other container runs or is about to start.
std::optional<int> ExitCodeOf(absl::string_view status) {
  if (absl::StartsWith(status, "Dead")) return -1;
  int code = 0;
  if (!absl::ConsumePrefix(&status, kExited)) return std::nullopt;
  return absl::SimpleAtoi(status.substr(0, status.find(')')), &code) ? std::optional<int>(code)
                                                                     : std::nullopt;
}

}  // namespace

std::vector<std::string> ListPeersCommand(const std::string& project) {
  std::vector<std::string> command = EngineCommand();
  command.insert(
      command.end(),
      {"ps", "-a", "--filter", absl::StrCat("label=com.docker.compose.project=", project),
       "--filter", "label=com.docker.compose.service=peer", "--format", "{{.Names}} {{.Status}}"});
  return command;
}

std::vector<PeerContainer> ParsePeerList(absl::string_view listing) {
  std::vector<PeerContainer> peers;
  for (const absl::string_view line : absl::StrSplit(listing, '\n', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(absl::StripAsciiWhitespace(line), absl::MaxSplits(' ', 1));
    if (parts.second.empty()) continue;
    peers.push_back({std::string(parts.first), ExitCodeOf(parts.second)});
  }
  std::sort(peers.begin(), peers.end(), [](const PeerContainer& a, const PeerContainer& b) {
    return std::make_pair(NumberOf(a), a.name) < std::make_pair(NumberOf(b), b.name);
  });
  return peers;
}

bool AllEnded(const std::vector<PeerContainer>& peers) {
  return !peers.empty() && std::all_of(peers.begin(), peers.end(), [](const PeerContainer& one) {
    return one.exit_code.has_value();
  });
}

bool AllFailed(const std::vector<PeerContainer>& peers) {
  return std::all_of(peers.begin(), peers.end(),
                     [](const PeerContainer& one) { return one.exit_code.value_or(0) != 0; });
}

std::vector<std::string> LastLinesOfPeers(const std::string& log_path,
                                          const std::vector<PeerContainer>& peers) {
  std::vector<std::string> last(peers.size());
  std::ifstream stream(log_path, std::ios::binary);
  // "peer-2  | what it said", or with all of the container's name; of other services too.
  for (std::string line; std::getline(stream, line);) {
    const size_t bar = line.find('|');
    if (bar == std::string::npos) continue;
    const absl::string_view who =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(0, bar));
    const absl::string_view said =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(bar + 1));
    if (who.empty() || said.empty()) continue;
    for (size_t i = 0; i < peers.size(); ++i) {
      if (absl::EndsWith(peers[i].name, who)) last[i] = OneLine(said, kMostOfLine);
    }
  }
  return last;
}

std::string DescribeEndedPeers(const std::vector<PeerContainer>& peers,
                               const std::vector<std::string>& lines) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < peers.size(); ++i) {
    const int code = peers[i].exit_code.value_or(0);
    const std::string how = code < 0 ? "is dead" : absl::StrCat("exited with ", code);
    parts.push_back(absl::StrCat(PeerNameOf(peers[i].name), " ", how,
                                 i < lines.size() && !lines[i].empty() ? ": " : "",
                                 i < lines.size() ? lines[i] : ""));
  }
  return absl::StrCat("no peer runs any more: ", absl::StrJoin(parts, "; "));
}

}  // namespace atolld
