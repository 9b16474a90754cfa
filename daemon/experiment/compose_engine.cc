#include "daemon/experiment/compose_engine.h"

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
#include "daemon/program/process.h"

namespace atolld {
namespace {

constexpr int kAnswerSeconds = 20;
constexpr char kByPath[] = "/usr/bin/env";  // looks a program up

absl::Status Answers(const std::vector<std::string>& command) {
  return RunAndCapture(command, kAnswerSeconds).status();
}

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

absl::StatusOr<std::vector<std::string>> FindComposeEngine() {
  const absl::Status docker = Answers({kByPath, "docker", "version"});
  if (!docker.ok()) {
    return absl::UnavailableError(
        absl::StrCat("no container engine answers here, `docker version` says: ", docker.message(),
                     "; install one (Debian: docker.io and docker-compose), start it, and be root "
                     "or of the group docker"));
  }
  const std::vector<std::vector<std::string>> known = {{kByPath, "docker", "compose"},
                                                       {kByPath, "docker-compose"}};
  for (const std::vector<std::string>& compose : known) {
    std::vector<std::string> version = compose;
    version.push_back("version");
    if (!Answers(version).ok()) continue;
    if (Answers({kByPath, "docker", "image", "inspect", kContainerImage}).ok()) return compose;
    return absl::NotFoundError(
        absl::StrCat("the container engine has no image ", kContainerImage,
                     "; `docker compose build` in Atoll's source tree makes it"));
  }
  return absl::UnavailableError(
      "there is a container engine, but neither `docker compose` nor docker-compose (Debian: "
      "docker-compose)");
}

std::vector<std::string> ListPeersCommand(const std::string& project) {
  return {kByPath,    "docker",
          "ps",       "-a",
          "--filter", absl::StrCat("label=com.docker.compose.project=", project),
          "--filter", "label=com.docker.compose.service=peer",
          "--format", "{{.Names}} {{.Status}}"};
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
