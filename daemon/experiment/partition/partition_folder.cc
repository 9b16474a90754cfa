#include "daemon/experiment/partition/partition_folder.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/experiment/partition/npy_file.h"
#include "daemon/experiment/partition/partitioner.h"
#include "daemon/experiment/partition/sample_reader.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

constexpr uint64_t kLargestPartitionFile = uint64_t{1} << 31;
constexpr size_t kAllParties = SIZE_MAX;

struct PartyFile {
  std::string name;  // in the partition's folder
  std::string bytes;
};

std::vector<PartyFile> ArrayFiles(const SampleSet& set, const std::vector<uint32_t>& samples,
                                  const std::string& name) {
  std::vector<uint64_t> shape = {samples.size()};
  std::string labels = NpyHeaderText(set.label_type, shape);
  shape.insert(shape.end(), set.row_shape.begin(), set.row_shape.end());
  std::string features = NpyHeaderText(set.feature_type, shape);
  for (const uint32_t row : samples) {
    absl::StrAppend(&features, set.Text(set.samples[row]));
    labels.append(set.label_bytes, row * set.label_width, set.label_width);
  }
  return {{absl::StrCat(name, "/", kFeaturesFile), std::move(features)},
          {absl::StrCat(name, "/", kLabelsFile), std::move(labels)}};
}

std::vector<PartyFile> FilesOf(const SampleSet& set, const std::vector<uint32_t>& samples,
                               const std::string& name) {
  if (set.form == DataForm::kArrays) return ArrayFiles(set, samples, name);
  const bool json = set.form == DataForm::kJsonLines;
  PartyFile file;
  file.name = absl::StrCat(name, json ? ".jsonl" : ".txt");
  for (const uint32_t sample : samples) {
    const absl::string_view text = set.Text(set.samples[sample]);
    absl::StrAppend(&file.bytes, text, text.back() == '\n' ? "" : "\n", set.between);
  }
  return {std::move(file)};
}

class PartitionFolder {
 public:
  PartitionFolder(Files& files, std::string folder)
      : files_(files), folder_(std::move(folder)), made_in_(absl::StrCat(folder_, ".unfinished")) {}

  absl::StatusOr<PartitionReport> Make(const PartitionSettings& settings, const SampleSet& set,
                                       const Assignment& assignment) {
    PartitionReport report = DescribePartition(settings, set, assignment);
    report.folder = folder_;
    const std::string made_of = ToHex(DigestBuilder("atoll.partition.1")
                                          .Bytes(settings.Text())
                                          .Bytes(ToBytes(set.digest))
                                          .Finish());
    RETURN_IF_ERROR(ReadPresent());
    report.found = present_made_of_ == made_of;
    // What a killed run left.
    RETURN_IF_ERROR(RemoveOurs(made_in_));
    for (size_t i = 0; i <= report.parties.size(); ++i) {
      const bool held = i == report.parties.size();
      PartyShare& share = held ? report.validation : report.parties[i];
      if (share.samples == 0) continue;
      RETURN_IF_ERROR(
          Put(FilesOf(set, held ? assignment.validation : assignment.parties[i], share.name),
              &share, &report.found));
    }
    if (report.found) return report;
    return Finish(std::move(report), set, assignment, made_of);
  }

 private:
  // Names a party's files; whether they are there, with their sizes, is asked and not more.
  absl::Status Put(const std::vector<PartyFile>& made, PartyShare* share, bool* found) {
    DigestBuilder digest("atoll.partition.files.1");
    for (const PartyFile& file : made) {
      share->files.push_back(file.name);
      digest.Bytes(file.bytes);
      if (!*found) continue;
      const auto there = files_.OpenToRead(absl::StrCat(folder_, "/", file.name));
      *found = there.ok() && (*there)->size() == file.bytes.size();
    }
    share->digest = ToHex(digest.Finish());
    return absl::OkStatus();
  }

  absl::Status Write(const std::vector<PartyFile>& made) {
    for (const PartyFile& file : made) {
      const std::string path = absl::StrCat(made_in_, "/", file.name);
      if (const size_t slash = file.name.find('/'); slash != std::string::npos) {
        RETURN_IF_ERROR(
            files_.MakeDirectories(absl::StrCat(made_in_, "/", file.name.substr(0, slash))));
      }
      ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> out, files_.Create(path));
      RETURN_IF_ERROR(out->Append(BytesOf(file.bytes)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PartitionReport> Finish(PartitionReport report, const SampleSet& set,
                                         const Assignment& assignment, const std::string& made_of) {
    RETURN_IF_ERROR(files_.MakeDirectories(made_in_));
    for (size_t i = 0; i < report.parties.size(); ++i) {
      RETURN_IF_ERROR(Write(FilesOf(set, assignment.parties[i], report.parties[i].name)));
    }
    if (report.validation.samples > 0) {
      RETURN_IF_ERROR(Write(FilesOf(set, assignment.validation, report.validation.name)));
    }
    nlohmann::ordered_json json = PartitionJson(report, kAllParties);
    json.erase("folder");
    json["made_of"] = made_of;
    const std::string text =
        json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    RETURN_IF_ERROR(
        WriteFileDurably(files_, absl::StrCat(made_in_, "/", kPartitionFile), BytesOf(text)));
    RETURN_IF_ERROR(RemoveOurs(folder_));
    RETURN_IF_ERROR(files_.Rename(made_in_, folder_));
    const size_t slash = folder_.rfind('/');
    RETURN_IF_ERROR(files_.SyncDirectory(slash == 0 ? "/" : folder_.substr(0, slash)));
    return report;
  }

  // What lies in the folder now, by its partition.json.
  absl::Status ReadPresent() {
    if (!files_.Exists(folder_)) return absl::OkStatus();
    const std::string path = absl::StrCat(folder_, "/", kPartitionFile);
    const absl::StatusOr<std::vector<std::string>> names = files_.List(folder_);
    if (names.ok() && names->empty()) return absl::OkStatus();
    const absl::StatusOr<std::string> text =
        names.ok() ? ReadFile(files_, path, kLargestPartitionFile) : names.status();
    const nlohmann::json json =
        text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
    if (!json.is_object() || !json.contains("made_of") || !json["made_of"].is_string()) {
      return absl::FailedPreconditionError(
          absl::StrCat(folder_, ": is there, and holds no partition; name another folder"));
    }
    present_made_of_ = json["made_of"].get<std::string>();
    return absl::OkStatus();
  }

  // Removes a partition. What lies beside one stays, and is an error.
  absl::Status RemoveOurs(const std::string& path) {
    if (!files_.Exists(path)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(path));
    for (const std::string& name : names) {
      if (absl::StartsWith(name, "party-") || absl::StartsWith(name, "validation") ||
          absl::StartsWith(name, kPartitionFile)) {
        continue;
      }
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": holds '", name, "' beside a partition; move it away"));
    }
    return RemoveAll(path);
  }

  absl::Status RemoveAll(const std::string& path) {
    if (!files_.Exists(path)) return absl::OkStatus();
    const absl::StatusOr<std::vector<std::string>> names = files_.List(path);
    if (names.ok()) {
      for (const std::string& name : *names) {
        RETURN_IF_ERROR(RemoveAll(absl::StrCat(path, "/", name)));
      }
    }
    return files_.Remove(path);
  }

  Files& files_;
  const std::string folder_;
  const std::string made_in_;
  std::string present_made_of_;  // of the partition that lies there; empty: none does
};

}  // namespace

absl::StatusOr<PartitionReport> ShowPartition(Files& files, const PartitionSettings& settings) {
  ASSIGN_OR_RETURN(const SampleSet set, ReadSamples(files, settings));
  ASSIGN_OR_RETURN(const Assignment assignment, AssignSamples(settings, set));
  return DescribePartition(settings, set, assignment);
}

absl::StatusOr<PartitionReport> WritePartition(Files& files, const PartitionSettings& settings,
                                               const std::string& folder) {
  ASSIGN_OR_RETURN(const SampleSet set, ReadSamples(files, settings));
  ASSIGN_OR_RETURN(const Assignment assignment, AssignSamples(settings, set));
  std::string path = folder;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (absl::StartsWith(absl::StrCat(path, "/"), absl::StrCat(settings.path, "/"))) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": lies in the data itself, which would grow by it"));
  }
  return PartitionFolder(files, path).Make(settings, set, assignment);
}

}  // namespace atolld
