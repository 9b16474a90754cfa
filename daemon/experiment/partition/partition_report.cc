#include "daemon/experiment/partition/partition_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

constexpr size_t kFewestDigits = 4;
constexpr size_t kLabelsInJson = 1000;  // of a party

PartyShare ShareOf(const SampleSet& set, const std::vector<uint32_t>& samples) {
  PartyShare share;
  share.samples = samples.size();
  std::vector<uint64_t> counts(set.labels.size());
  for (const uint32_t sample : samples) {
    share.bytes += set.samples[sample].bytes;
    ++counts[set.samples[sample].label];
  }
  for (uint32_t label = 0; label < counts.size(); ++label) {
    if (counts[label] > 0) share.labels.emplace_back(label, counts[label]);
  }
  std::stable_sort(share.labels.begin(), share.labels.end(),
                   [](const LabelCount& a, const LabelCount& b) { return a.second > b.second; });
  return share;
}

void Measure(PartitionReport* report) {
  std::vector<uint64_t> sizes;
  double total = 0;
  for (const uint64_t count : report->label_counts) total += static_cast<double>(count);
  for (const PartyShare& party : report->parties) {
    sizes.push_back(party.samples);
    double entropy = 0, met = 0, off = 0;
    for (const auto& [label, count] : party.labels) {
      const double own = static_cast<double>(count) / static_cast<double>(party.samples);
      const double all = static_cast<double>(report->label_counts[label]) / total;
      entropy -= own * std::log(own);
      off += std::abs(own - all);
      met += all;
    }
    report->effective_labels += std::exp(entropy);
    report->distance += (off + (1 - met)) / 2;
  }
  const double parties = static_cast<double>(std::max<size_t>(1, sizes.size()));
  report->effective_labels /= parties;
  report->distance /= parties;
  if (sizes.empty()) return;
  std::sort(sizes.begin(), sizes.end());
  report->smallest = sizes.front();
  report->median = sizes[sizes.size() / 2];
  report->largest = sizes.back();
}

nlohmann::ordered_json ShareJson(const PartitionReport& report, const PartyShare& share) {
  nlohmann::ordered_json json;
  json["name"] = share.name;
  if (!share.key.empty()) json["key"] = share.key;
  if (!share.files.empty()) json["files"] = share.files;
  json["samples"] = share.samples;
  json["bytes"] = share.bytes;
  if (!share.digest.empty()) json["digest"] = share.digest;
  nlohmann::ordered_json& labels = json["labels"] = nlohmann::ordered_json::object();
  for (const auto& [label, count] : share.labels) {
    if (labels.size() == kLabelsInJson) break;
    labels[report.labels[label]] = count;
  }
  return json;
}

}  // namespace

std::string PartyName(uint64_t number, uint64_t parties) {
  const size_t digits = std::max(kFewestDigits, absl::StrCat(parties).size());
  return absl::StrFormat("party-%0*d", static_cast<int>(digits), number);
}

PartitionReport DescribePartition(const PartitionSettings& settings, const SampleSet& set,
                                  const Assignment& assignment) {
  PartitionReport report;
  report.settings = settings;
  report.labels = set.labels;
  report.label_counts.resize(set.labels.size());
  report.data = ToHex(set.digest);
  report.samples = set.samples.size();
  report.unlabelled = set.unlabelled;
  report.draws = assignment.draws;
  report.left_over = assignment.left_over;
  for (size_t i = 0; i < assignment.parties.size(); ++i) {
    PartyShare share = ShareOf(set, assignment.parties[i]);
    share.name = PartyName(i + 1, assignment.parties.size());
    if (i < assignment.names.size()) share.key = assignment.names[i];
    for (const auto& [label, count] : share.labels) report.label_counts[label] += count;
    report.parties.push_back(std::move(share));
  }
  report.validation = ShareOf(set, assignment.validation);
  report.validation.name = "validation";
  Measure(&report);
  return report;
}

nlohmann::ordered_json PartitionJson(const PartitionReport& report, size_t most_parties) {
  nlohmann::ordered_json json;
  json["scheme"] = report.settings.scheme;
  json["seed"] = report.settings.seed;
  nlohmann::ordered_json& settings = json["settings"] = nlohmann::ordered_json::object();
  for (const absl::string_view line :
       absl::StrSplit(report.settings.Text(), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(" = ", 1));
    settings[parts.first] = parts.second;
  }
  json["data"] = report.data;
  json["samples"] = report.samples;
  json["unlabelled"] = report.unlabelled;
  if (report.settings.scheme == "dirichlet") json["draws"] = report.draws;
  json["smallest"] = report.smallest;
  json["median"] = report.median;
  json["largest"] = report.largest;
  json["effective_labels"] = report.effective_labels;
  json["distance"] = report.distance;
  json["validation"] = ShareJson(report, report.validation);
  nlohmann::ordered_json& left = json["left_over"] = nlohmann::ordered_json::array();
  for (const LeftOver& group : report.left_over) {
    left.push_back({{"reason", group.reason}, {"samples", group.samples}});
  }
  json["party_count"] = report.parties.size();
  nlohmann::ordered_json& parties = json["parties"] = nlohmann::ordered_json::array();
  for (const PartyShare& party : report.parties) {
    if (parties.size() == most_parties) break;
    parties.push_back(ShareJson(report, party));
  }
  if (!report.folder.empty()) json["folder"] = report.folder;
  return json;
}

}  // namespace atolld
