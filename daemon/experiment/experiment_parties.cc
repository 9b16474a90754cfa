#include "daemon/experiment/experiment_parties.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/cli/partition_text.h"
#include "daemon/config/peer_path.h"
#include "daemon/experiment/partition/partition_folder.h"
#include "daemon/experiment/partition/partition_picture.h"

namespace atolld {
namespace {

constexpr char kPartyPrefix[] = "party-";
constexpr char kSettingsEnding[] = ".settings";
constexpr uint64_t kMostSettingsBytes = 1 << 20;
constexpr uint64_t kMostTitle = 4096;
constexpr uint64_t kMostPicture = 16 << 20;

// Returns a party's entry in the partition's folder: a file or a folder.
std::string EntryOf(const PartyShare& party) {
  const std::string file = absl::StrCat(party.name, ".");
  for (const std::string& name : party.files) {
    if (absl::StartsWith(name, file)) return name;
  }
  return party.name;
}

// Returns ".txt"; empty for a folder.
std::string EndingOf(const PartyShare& party) { return EntryOf(party).substr(party.name.size()); }

// Makes a folder with the parties alone, whatever else is beside them.
absl::Status LinkParties(const PartitionReport& report, const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder, error);
  for (const PartyShare& party : report.parties) {
    const std::string entry = EntryOf(party);
    const std::filesystem::path target =
        std::filesystem::path("..") / std::filesystem::path(report.folder).filename() / entry;
    if (!error) std::filesystem::create_symlink(target, absl::StrCat(folder, "/", entry), error);
  }
  if (!error) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(folder, ": ", error.message()));
}

}  // namespace

// A folder without settings is an earlier release's, which numbered partitions in the order of the
// file.
size_t ExperimentParties::NumberOf(const std::string& settings) const {
  size_t free = 0;
  for (size_t number = 1;; ++number) {
    const std::string folder = absl::StrCat(dir_, "/parties/", number);
    const absl::StatusOr<std::string> there =
        ReadFile(files_, absl::StrCat(folder, kSettingsEnding), kMostSettingsBytes);
    if (there.ok() && *there == settings) return number;
    if (!there.ok() && free == 0) free = number;
    if (!there.ok() && !files_.Exists(folder)) return free;
  }
}

absl::StatusOr<PartyData> ExperimentParties::DataOf(const RunPlan& plan) {
  const std::string settings = plan.partition->Text();
  auto found = std::find_if(made_.begin(), made_.end(),
                            [&](const Made& one) { return one.settings == settings; });
  const size_t number = found != made_.end() ? found->number : NumberOf(settings);
  const std::string folder = absl::StrCat(dir_, "/parties/", number);
  if (found == made_.end()) {
    RETURN_IF_ERROR(files_.MakeDirectories(dir_ + "/parties"));
    absl::StatusOr<PartitionReport> report = WritePartition(files_, *plan.partition, folder);
    if (!report.ok()) return Annotate(report.status(), plan.id);
    pictures_.push_back(
        {absl::StrCat(plan.partition->scheme, ", ", Counted(report->parties.size(), "party"),
                      ", seed ", plan.partition->seed),
         PartitionSvg(*report)});
    if (const std::string note = UnlabelledText(*report); !note.empty()) notes_.insert(note);
    const PartitionPicture& picture = pictures_.back();
    RETURN_IF_ERROR(WriteFileDurably(files_, folder + ".title", BytesOf(picture.title)));
    RETURN_IF_ERROR(WriteFileDurably(files_, folder + ".svg", BytesOf(picture.svg)));
    RETURN_IF_ERROR(
        WriteFileDurably(files_, absl::StrCat(folder, kSettingsEnding), BytesOf(settings)));
    made_.push_back({settings, number, *std::move(report)});
    found = made_.end() - 1;
  }
  const PartitionReport& report = found->report;
  PartyData data;
  data.parties = static_cast<uint32_t>(report.parties.size());
  if (report.validation.samples > 0) {
    data.validation = absl::StrCat(folder, "/", EntryOf(report.validation));
  }
  if (plan.keys.hosts == 0) {
    data.path = absl::StrCat(folder, "/", kPartyPrefix, kPeerPlace, EndingOf(report.parties[0]));
    return data;
  }
  data.path = folder + "-hosted";
  RETURN_IF_ERROR(LinkParties(report, data.path));
  return data;
}

absl::StatusOr<std::vector<PartitionPicture>> ReadPictures(Files& files, const std::string& dir) {
  std::vector<PartitionPicture> pictures;
  for (size_t number = 1;; ++number) {
    const std::string base = absl::StrCat(dir, "/parties/", number);
    if (!files.Exists(base + ".svg")) return pictures;
    PartitionPicture picture;
    ASSIGN_OR_RETURN(picture.title, ReadFile(files, base + ".title", kMostTitle));
    ASSIGN_OR_RETURN(picture.svg, ReadFile(files, base + ".svg", kMostPicture));
    pictures.push_back(std::move(picture));
  }
}

}  // namespace atolld
