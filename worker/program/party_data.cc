#include "worker/program/party_data.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

constexpr size_t kOpenAtOnce = 256;

}  // namespace

PartyData::PartyData(const v1::Configure& configure, OpenOne open)
    : parties_(configure.parties()),
      first_(std::max(1u, configure.first_party())),
      open_(std::move(open)) {}

absl::StatusOr<std::unique_ptr<PartyData>> PartyData::Make(const v1::Configure& configure,
                                                           OpenOne open) {
  std::unique_ptr<PartyData> data(new PartyData(configure, std::move(open)));
  RETURN_IF_ERROR(data->List(configure.data_path()));
  const uint64_t last = uint64_t{data->first_} + data->parties_ - 1;
  if (last > data->found()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", configure.data_path(), " holds ",
                     Counted(data->found(), "party", "parties"), "; this peer is to have ",
                     data->parties_, " from ", data->first_, " on, so there must be ", last));
  }
  for (uint32_t party = 1; party <= data->parties_; ++party) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Corpus> corpus, data->Open(party));
    data->samples_ += corpus->samples();
    data->train_tokens_ += corpus->train_tokens();
    data->validation_tokens_ += corpus->validation_tokens();
  }
  return data;
}

absl::Status PartyData::List(const std::string& data_path) {
  std::vector<std::string> folders;
  for (const absl::string_view line : absl::StrSplit(data_path, '\n')) {
    if (absl::StartsWith(line, "tokenizer ")) {
      absl::StrAppend(&tokenizer_, line, "\n");
    } else {
      folders.emplace_back(line);
    }
  }
  if (folders.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: the parties' data is one folder, and [data] names ", folders.size(), " sources"));
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folders[0], error)) {
    if (!absl::StartsWith(entry.path().filename().string(), ".")) {
      paths_.push_back(entry.path().string());
    }
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: ", folders[0],
        " must be a folder with a file or a folder for each party: ", error.message()));
  }
  std::sort(paths_.begin(), paths_.end());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Corpus>> PartyData::Open(uint32_t party) {
  if (party < 1 || party > parties_) {
    return absl::InvalidArgumentError(
        absl::StrCat("party ", party, " is not here; this worker has 1 to ", parties_));
  }
  const auto found = opened_.find(party);
  if (found != opened_.end()) {
    found->second.used = ++turns_;
    return found->second.corpus;
  }
  absl::StatusOr<std::shared_ptr<const Corpus>> corpus =
      open_(absl::StrCat(tokenizer_, paths_[NumberOf(party) - 1]));
  RETURN_IF_ERROR(Annotate(corpus.status(), absl::StrCat("party ", NumberOf(party))));
  if (opened_.size() >= kOpenAtOnce) {
    opened_.erase(std::min_element(
        opened_.begin(), opened_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  opened_[party] = {*corpus, ++turns_};
  return corpus;
}

}  // namespace atolld
