#include "daemon/bench/exchange_lab.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/cli/plan_report.h"
#include "daemon/cli/process.h"
#include "membership/history/run_codecs.h"
#include "membership/planning/round_model.h"

namespace atolld {
namespace {

constexpr char kNodes[] = "ATOLL_LAB_NODES";
constexpr char kLab[] = "ATOLL_LAB";
// From the folder of the binaries, build/PRESET/bin of the source tree.
constexpr char kLabOfTree[] = "../../../tests/wan/lab";

std::vector<std::string> OwnCall() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words = absl::StrSplit(text, '\0');
  if (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

std::map<std::string, std::string> Nodes() {
  const char* const told = std::getenv(kNodes);
  std::map<std::string, std::string> nodes;
  for (absl::string_view node :
       absl::StrSplit(told == nullptr ? "" : told, ' ', absl::SkipEmpty())) {
    nodes.insert(absl::StrSplit(node, absl::MaxSplits('=', 1)));
  }
  return nodes;
}

}  // namespace

bool InLab() { return std::getenv(kNodes) != nullptr; }

absl::Status EnterLab(const std::string& topology) {
  if (geteuid() != 0) {
    return absl::PermissionDeniedError("--topology needs root: it makes network namespaces");
  }
  const std::string folder = ProgramFolder();
  const char* const named = std::getenv(kLab);
  const std::string lab = named != nullptr ? named : absl::StrCat(folder, "/", kLabOfTree);
  if (access(lab.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("--topology needs the lab of the source tree: ", lab,
                                            " is not there; ", kLab, " names another"));
  }
  std::vector<std::string> call = {lab, "drive", topology, "--"};
  for (std::string& word : OwnCall()) call.push_back(std::move(word));
  std::error_code error;
  call[4] = std::filesystem::read_symlink("/proc/self/exe", error).string();
  std::vector<char*> arguments;
  for (std::string& word : call) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv("ATOLL_BIN", folder.c_str(), 1);
  execv(lab.c_str(), arguments.data());
  return absl::UnknownError(absl::StrCat(lab, ": ", std::strerror(errno)));
}

absl::Status PlaceOnNodes(const LinkModel& links, ExchangeBenchOptions* options) {
  const std::map<std::string, std::string> nodes = Nodes();
  options->peers = static_cast<int>(links.peers().size());
  options->launcher = {"/usr/bin/env", "ip", "netns", "exec", "{name}"};
  for (const PeerLink& peer : links.peers()) {
    const auto node = nodes.find(peer.name);
    if (node == nodes.end()) {
      return absl::FailedPreconditionError(absl::StrCat("the lab has no node ", peer.name));
    }
    options->names.push_back(peer.name);
    // Behind NAT the address is its router's.
    options->hosts.push_back(peer.reachable ? node->second : "127.0.0.1");
    options->reachable.push_back(peer.reachable);
  }
  return absl::OkStatus();
}

std::optional<ExchangeExpectation> Expect(const LinkModel& links, const LevelCodecs& codecs,
                                          uint64_t elements, uint32_t chunk_elements) {
  const std::vector<std::string> predictable = PredictableCodecs();
  for (const WireCodec& codec : {codecs.updates, codecs.means}) {
    const std::string name = codec.name();  // with zstd it is none of them
    if (std::find(predictable.begin(), predictable.end(), name) == predictable.end()) {
      return std::nullopt;
    }
  }
  const uint64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
  const ExchangeTraffic traffic = TrafficOf(links, PlanShape::kFlat, static_cast<uint32_t>(chunks));
  const EncodedSize size = EncodedSizeOf(elements, chunk_elements, codecs);
  // Bytes without headers, and computers that take no time.
  constexpr double kAtOnce = 1e30;
  const ExchangePrediction ideal =
      PredictExchange(links, traffic, size, {1, 1, kAtOnce, kAtOnce, kAtOnce, kAtOnce, 0, kAtOnce});
  ExchangeExpectation expectation;
  expectation.line_seconds = ideal.lines_seconds;
  expectation.line = ideal.bottleneck;
  expectation.rtt = traffic.rtt;
  expectation.bound_seconds = ideal.lines_seconds + 2 * absl::ToDoubleSeconds(traffic.rtt);
  expectation.predicted = PredictExchange(links, traffic, size, ModelAssumptions());
  return expectation;
}

}  // namespace atolld
