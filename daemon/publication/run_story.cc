#include "daemon/publication/run_story.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/publication/private_run.h"
#include "daemon/publication/site_page.h"
#include "membership/history/checkpoint.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

// The keys of what only the coordinator knew.
constexpr char kToldEpoch[] = "coordinator_epoch";
constexpr char kToldEpsilon[] = "epsilon";
constexpr char kToldLosses[] = "losses";
// A later release may nest deeper than this one's 4.
constexpr int kStoryDepth = 8;

Json OrNull(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json LossesOf(const CoordinatorWord& told) {
  const size_t count = told.losses.size();
  const size_t step =
      std::max<size_t>(1, (count + RunStory::kMostPoints - 1) / RunStory::kMostPoints);
  Json losses = Json::array();
  for (size_t i = 0; i < count; ++i) {
    const ToldLoss& loss = told.losses[i];
    // Of a long run some training losses are left out, and no validation loss.
    const bool kept = i % step == 0 || i + 1 == count || loss.validation;
    if (!kept || (!loss.train && !loss.validation)) continue;
    losses.push_back({{"version", loss.version},
                      {"seconds", loss.elapsed_seconds},
                      {"train", OrNull(loss.train)},
                      {"validation", OrNull(loss.validation)}});
  }
  return losses;
}

Json ParentOf(const v1::RunSpec& spec) {
  if (!spec.has_parent()) return nullptr;
  const v1::Lineage& parent = spec.parent();
  Json earlier = Json::array();
  for (const v1::Lineage& one : parent.earlier()) {
    earlier.push_back({{"run_id", one.run_id()}, {"version", one.version()}});
  }
  return {{"run_id", parent.run_id()},
          {"version", parent.version()},
          {"state_digest", absl::BytesToHexString(parent.state_digest())},
          {"buffers", parent.buffers()},
          {"earlier", std::move(earlier)}};
}

}  // namespace

RunStory::RunStory(uint64_t first, uint64_t headers)
    : first_(first), headers_(headers), bins_(std::min(headers, kMostBins)) {}

void RunStory::Add(const v1::EntryHeader& header) {
  CHECK(header.version() >= first_ && header.version() - first_ < headers_);
  const uint64_t bin = (header.version() - first_) * bins_ / headers_;
  const std::vector<double> means = MeanShares(header);
  for (int i = 0; i < header.contributors_size(); ++i) {
    const v1::Contributor& one = header.contributors(i);
    Share& share = shares_[one.peer()];
    if (share.rounds == 0) {
      share.first = header.version();
      share.bins.resize(bins_);
    }
    ++share.rounds;
    ++share.bins[bin];
    share.last = header.version();
    share.tokens += one.tokens();
    share.steps += one.steps();
    share.shares += means[static_cast<size_t>(i)];
    tokens_ += one.tokens();
  }
}

Json RunStory::Peers() const {
  Json peers = Json::array();
  for (const auto& [peer, share] : shares_) {
    // A peer that had not come yet, or was gone for good, was not left out.
    const uint64_t left_out = share.last + 1 - share.first - share.rounds;
    peers.push_back({{"peer", peer},
                     {"rounds", share.rounds},
                     {"left_out", left_out},
                     {"tokens", share.tokens},
                     {"steps", share.steps},
                     {"share", share.shares / static_cast<double>(headers_)},
                     {"first", share.first},
                     {"last", share.last},
                     {"bins", share.bins}});
  }
  return peers;
}

std::string RunStory::Text(const v1::Genesis& genesis, const SiteIndex& index,
                           const CoordinatorWord& told) const {
  const v1::RunSpec& spec = genesis.spec();
  Json files = Json::array();
  for (const SiteFile& file : index.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  const SiteFile* const payloads = index.Find(kSitePayloads);
  const bool keyed = !index.history_key.empty();
  const Json story = {
      {"run_id", index.run_id},
      {"name", index.name},
      {"software", index.software},
      {"model", index.model},
      {"parameters", index.elements},
      {"mode", spec.mode().kind().empty() ? "sync" : spec.mode().kind()},
      {"outer_rule", spec.outer().rule()},
      {"codec", index.codec},
      {"private", spec.data().private_()},
      {"masked", spec.privacy().masked()},
      {"version", index.version},
      {"first_header", index.first_header},
      {"state_version", index.state_version ? Json(*index.state_version) : Json(nullptr)},
      {"state_digest", index.state_digest ? Json(ToHex(*index.state_digest)) : Json(nullptr)},
      {"sealed", index.sealed},
      {"history_key", keyed ? Json(absl::BytesToHexString(index.history_key)) : Json(nullptr)},
      {"genesis_digest", ToHex(index.genesis_digest)},
      {"tokens", tokens_},
      {"payload_bytes", payloads == nullptr ? 0 : payloads->bytes},
      {kToldEpoch, told.epoch == 0 ? Json(nullptr) : Json(told.epoch)},
      {kToldEpsilon, told.epsilon > 0 ? Json(told.epsilon) : Json(nullptr)},
      {"parent", ParentOf(spec)},
      {"bins", bins_},
      {"peers", Peers()},
      {kToldLosses, IsPrivateRun(spec) ? Json::array() : LossesOf(told)},
      {"files", std::move(files)}};
  return story.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

absl::Status CompareStory(absl::string_view text, const RunStory& story, const v1::Genesis& genesis,
                          const SiteIndex& index) {
  ASSIGN_OR_RETURN(const nlohmann::json found, ParseShallowJson(text, kStoryDepth));
  SiteIndex before = index;
  before.files.clear();
  for (const SiteFile& file : index.files) {
    if (file.name != kSiteStory && file.name != kSitePage) before.files.push_back(file);
  }
  const nlohmann::json made = nlohmann::json::parse(story.Text(genesis, before, {}));
  for (const auto& [key, value] : made.items()) {
    if (key == kToldEpoch || key == kToldEpsilon || key == kToldLosses) continue;
    if (found.is_object() && found.contains(key) && found[key] == value) continue;
    return absl::DataLossError(
        absl::StrCat("its \"", key, "\" is not what run.json and the headers say"));
  }
  return absl::OkStatus();
}

std::string PageOf(absl::string_view story) {
  // No text of a run may end the script element that holds it.
  const std::string inert = absl::StrReplaceAll(story, {{"<", "\\u003c"}});
  return absl::StrReplaceAll(SitePage(), {{"@STORY@", inert}});
}

}  // namespace atolld
