#include "daemon/cli/partition_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/base/words.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

constexpr size_t kLabelsOfParty = 4;
constexpr size_t kLongestShownLabel = 24;

std::string LabelsOf(const PartitionReport& report, const PartyShare& share) {
  std::vector<std::string> words;
  for (const auto& [label, count] : share.labels) {
    if (words.size() == kLabelsOfParty) break;
    const double part = 100 * static_cast<double>(count) / static_cast<double>(share.samples);
    words.push_back(absl::StrFormat(
        "%s %.0f %%", CutToWidth(report.labels[label], kLongestShownLabel, Charset::kAscii), part));
  }
  if (share.labels.size() > kLabelsOfParty) {
    words.push_back(absl::StrCat("and ", share.labels.size() - kLabelsOfParty, " more"));
  }
  return absl::StrJoin(words, ", ");
}

std::vector<std::string> RowOf(const PartitionReport& report, const PartyShare& share,
                               uint64_t dealt) {
  const double part = 100 * static_cast<double>(share.samples) / static_cast<double>(dealt);
  return {share.key.empty() ? share.name : absl::StrCat(share.name, " ", share.key),
          WithThousands(share.samples), FormatBytes(static_cast<double>(share.bytes)),
          absl::StrFormat("%.1f %%", part), LabelsOf(report, share)};
}

}  // namespace

std::string UnlabelledText(const PartitionReport& report) {
  if (report.unlabelled == 0) return "";
  const std::string& label = report.settings.label;
  const bool one = report.unlabelled == 1;
  return absl::StrCat(
      Counted(report.unlabelled, "sample"), " of ", WithThousands(report.samples),
      one ? " has " : " have ",
      label.empty() ? "no label by label_pattern" : absl::StrCat("no label '", label, "'"),
      one ? " and counts" : " and count",
      " as 'none'; [partition] unlabelled = \"leave_out\" leaves such out");
}

std::vector<std::string> PartitionText(const PartitionReport& report, size_t most_parties) {
  uint64_t dealt = 0;
  for (const PartyShare& party : report.parties) dealt += party.samples;
  std::vector<std::vector<std::string>> rows = {{"party", "samples", "bytes", "share", "labels"}};
  for (const PartyShare& party : report.parties) {
    if (rows.size() > most_parties) break;
    rows.push_back(RowOf(report, party, dealt));
  }
  if (report.validation.samples > 0) {
    rows.push_back(RowOf(report, report.validation, dealt));
    rows.back()[3] = "-";
  }
  std::vector<std::string> lines = AlignColumns(std::move(rows), "<>>><");
  if (report.parties.size() > most_parties) {
    lines.push_back(
        absl::StrCat("and ", WithThousands(report.parties.size() - most_parties), " more parties"));
  }
  lines.push_back("");
  lines.push_back(absl::StrCat(
      Counted(report.parties.size(), "party"), " by '", report.settings.scheme, "', seed ",
      report.settings.seed, ": ", WithThousands(report.smallest), " to ",
      WithThousands(report.largest), " samples, median ", WithThousands(report.median)));
  lines.push_back(absl::StrFormat(
      "labels: %.2f effective a party; a party's mix lies %.3f from that of all (0: alike, 1: "
      "disjoint)",
      report.effective_labels, report.distance));
  if (report.draws > 1) {
    lines.push_back(absl::StrCat("drawn ", Counted(report.draws, "time"), ", until each had ",
                                 Counted(report.settings.fewest(), "sample")));
  }
  const std::string unlabelled = UnlabelledText(report);
  if (!unlabelled.empty()) lines.push_back(unlabelled);
  for (const LeftOver& group : report.left_over) {
    lines.push_back(
        absl::StrCat("left over: ", Counted(group.samples, "sample"), ", because ", group.reason));
  }
  return lines;
}

}  // namespace atolld
