#include "tests/wan/wan_plan.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

using Words = std::vector<absl::string_view>;

// Makes two lines of one seed lose different packets.
constexpr uint64_t kSeedsBetweenLines = 0x100000001b3;

absl::Status Wrong(const Words& words) {
  return absl::InvalidArgumentError(absl::StrCat("not a ", words[0], " of the network"));
}

absl::Status Unknown(absl::string_view what, absl::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("there is no ", what, " ", name));
}

}  // namespace

absl::Status WanPlan::Read(absl::string_view text) {
  const Words words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.empty()) return absl::OkStatus();
  if (words[0] == "node") return ReadNode(words);
  if (words[0] == "line") return ReadLine(words);
  if (words[0] == "path") return ReadPath(words);
  if (words[0] == "go" && words.size() == 1) {
    complete_ = true;
    return absl::OkStatus();
  }
  if (words[0] == "seed" && words.size() == 2 && absl::SimpleAtoi(words[1], &seed_)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("not understood: ", text));
}

absl::Status WanPlan::ReadNode(const Words& words) {
  in_addr address{};
  if (words.size() != 5 || inet_pton(AF_INET, std::string(words[4]).c_str(), &address) != 1) {
    return Wrong(words);
  }
  if (!node_index_.emplace(words[1], nodes_.size()).second) return Wrong(words);
  nodes_.push_back({std::string(words[1]), std::string(words[2]), std::string(words[3])});
  fabric_.AddNode(ntohl(address.s_addr));
  return absl::OkStatus();
}

absl::Status WanPlan::ReadLine(const Words& words) {
  LineSettings line;
  if (words.size() != 6 || !absl::SimpleAtod(words[2], &line.bits_per_second) ||
      !absl::ParseDuration(words[3], &line.delay) || !absl::ParseDuration(words[4], &line.queue) ||
      !absl::SimpleAtod(words[5], &line.loss)) {
    return Wrong(words);
  }
  // A line over which nothing ever gets would be a mistake in the topology. Not a number is in no
  // range.
  const bool carries = line.bits_per_second >= 1 && line.bits_per_second <= 1e12;
  const bool loses_a_share = line.loss >= 0 && line.loss < 1;
  if (!carries || !loses_a_share || line.delay < absl::ZeroDuration() ||
      line.queue < absl::ZeroDuration()) {
    return Wrong(words);
  }
  line.name = std::string(words[1]);
  const size_t index = line_index_.size();
  if (!line_index_.emplace(line.name, index).second) return Wrong(words);
  fabric_.AddLine(std::move(line), seed_ + kSeedsBetweenLines * index);
  return absl::OkStatus();
}

absl::Status WanPlan::ReadPath(const Words& words) {
  if (words.size() < 4) return Wrong(words);
  const auto from = node_index_.find(words[1]);
  if (from == node_index_.end()) return Unknown("node", words[1]);
  const auto to = node_index_.find(words[2]);
  if (to == node_index_.end()) return Unknown("node", words[2]);
  std::vector<size_t> lines;
  for (size_t i = 3; i < words.size(); ++i) {
    const auto line = line_index_.find(words[i]);
    if (line == line_index_.end()) return Unknown("line", words[i]);
    lines.push_back(line->second);
  }
  fabric_.SetPath(from->second, to->second, std::move(lines));
  return absl::OkStatus();
}

}  // namespace atolld
