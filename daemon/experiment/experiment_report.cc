#include "daemon/experiment/experiment_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/base/words.h"
#include "daemon/experiment/report_style.h"
#include "daemon/experiment/result_table.h"
#include "daemon/figures/figures.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

constexpr size_t kMostPictures = 12;  // of partitions: more say little and weigh much

std::string RoundText(double value) { return absl::StrFormat("%g", value); }

using Place = std::optional<double>;
Place RoundOf(const ResultRow& row) { return static_cast<double>(row.version); }
Place TokensOf(const ResultRow& row) { return row.tokens; }
Place BytesSent(const ResultRow& row) { return row.bytes; }
Place SecondsOf(const ResultRow& row) { return row.seconds; }

// Returns the unit of the runs' losses; "" if they differ, or if only the run's model knows it.
std::string UnitOf(const std::vector<RunResult>& results) {
  for (const RunResult& result : results) {
    if (result.loss_unit != results.front().loss_unit) return "";
  }
  return results.empty() ? "" : results.front().loss_unit;
}

std::string InUnit(const std::string& what, const std::string& unit) {
  return unit.empty() ? what : absl::StrCat(what, ", ", unit);
}

std::string TableHtml(const TableText& table, const std::string& caption) {
  std::string html = absl::StrCat("<div class=\"wide\"><table><caption>", HtmlText(caption),
                                  "</caption>\n<thead><tr>");
  for (const std::string& heading : table.headings) {
    absl::StrAppend(&html, "<th scope=\"col\">", HtmlText(heading), "</th>");
  }
  absl::StrAppend(&html, "</tr></thead>\n<tbody>\n");
  for (const std::vector<std::string>& row : table.rows) {
    absl::StrAppend(&html, "<tr>");
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&html, i == 0 ? "<th scope=\"row\">" : "<td>", HtmlText(row[i]),
                      i == 0 ? "</th>" : "</td>");
    }
    absl::StrAppend(&html, "</tr>\n");
  }
  return html + "</tbody></table></div>\n";
}

std::string CurvesHtml(const Experiment& experiment, const std::vector<RunResult>& results) {
  const struct {
    const char* title;
    const char* label;
    Place (*x)(const ResultRow& row);
    std::string (*text)(double value);
  } kinds[] = {{"Loss by rounds", "rounds", RoundOf, RoundText},
               {"Loss by tokens", "tokens trained on by all peers", TokensOf, FormatRate},
               {"Loss by bytes", "bytes sent by all peers", BytesSent, FormatBytes},
               {"Loss by time", "time since the first round began", SecondsOf, FormatSeconds}};
  std::string html = "<ul class=\"legend\">";
  for (size_t i = 0; i < experiment.settings.size(); ++i) {
    absl::StrAppend(&html, "<li>", LegendMark(i), HtmlText(experiment.settings[i].name), "</li>");
  }
  absl::StrAppend(&html, "</ul>\n<div class=\"plots\">\n");
  for (const auto& kind : kinds) {
    BandChart chart{
        kind.title, kind.label, InUnit("validation loss", UnitOf(results)), kind.text, {}};
    for (const ExperimentSetting& setting : experiment.settings) {
      chart.series.push_back({setting.name, LossBand(results, setting.name, kind.x)});
    }
    absl::StrAppend(&html, "<figure>", BandChartSvg(chart), "</figure>\n");
  }
  return html + "</div>\n";
}

// Returns an empty text if no run knows the loss on parties' own data.
std::string OwnLossHtml(absl::Span<const SettingRow> table, const std::string& unit) {
  std::vector<RangeRow> rows;
  for (const SettingRow& row : table) {
    if (row.own_mean.count == 0) continue;
    rows.push_back({row.setting, row.own_tenth.mean, row.own_mean.mean, row.own_ninetieth.mean});
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "<section><h2>The parties' own data</h2>\n<p>Each party's loss on data of its own that is "
      "held out: the bar reaches from the 10th to the 90th percentile of the parties, the dot is "
      "their mean; each is the mean over the seeds.</p>\n<div class=\"plots\"><figure>",
      RangeChartSvg("Loss on own data", InUnit("loss", unit), rows), "</figure></div></section>\n");
}

std::string PartitionsHtml(const std::vector<PartitionPicture>& partitions) {
  if (partitions.empty()) return "";
  std::string html = "<section><h2>Who has which data</h2>\n<div class=\"plots\">\n";
  for (size_t i = 0; i < std::min(partitions.size(), kMostPictures); ++i) {
    const PartitionPicture& picture = partitions[i];
    absl::StrAppend(&html, "<figure class=\"partition\"><figcaption>", HtmlText(picture.title),
                    "</figcaption><img alt=\"\" src=\"data:image/svg+xml;base64,",
                    absl::Base64Escape(picture.svg), "\"></figure>\n");
  }
  absl::StrAppend(&html, "</div>\n");
  if (partitions.size() > kMostPictures) {
    absl::StrAppend(&html, "<p>The first ", kMostPictures, " of ", partitions.size(),
                    " partitions.</p>\n");
  }
  return html + "</section>\n";
}

std::string DifferencesHtml(const Experiment& experiment) {
  TableText table{{"setting", "changes"}, {}};
  for (const ExperimentSetting& setting : experiment.settings) {
    std::vector<std::string> changes;
    for (const SettingChange& change : setting.changes) {
      changes.push_back(absl::StrCat(change.Name(), " = ", change.ValueText()));
    }
    table.rows.push_back(
        {setting.name, changes.empty() ? "nothing" : absl::StrJoin(changes, ", ")});
  }
  return absl::StrCat("<section class=\"words\"><h2>What the settings change</h2>\n",
                      TableHtml(table, "Over the file below"), "</section>\n");
}

std::string RunsHtml(const std::vector<RunResult>& results) {
  TableText table{{"run", "rounds", "time", "codec", "state digest"}, {}};
  for (const RunResult& result : results) {
    table.rows.push_back({result.id, RoundText(result.rounds()),
                          KnownText(result.wall_seconds, FormatSeconds), result.codec,
                          result.state_digest.substr(0, kShortDigest)});
  }
  return absl::StrCat("<section><h2>Runs</h2>\n",
                      TableHtml(table, "Equal digests are equal parameters, bit for bit"),
                      "</section>\n");
}

std::string RepeatHtml(const Experiment& experiment, const ReportInput& input) {
  return absl::StrCat("<section><h2>How to repeat it</h2>\n<p>With Atoll ", HtmlText(input.version),
                      ", the data that the file names and this file as ", HtmlText(experiment.path),
                      ":</p>\n<pre>", HtmlText(input.command), "</pre>\n<pre>",
                      HtmlText(experiment.text), "</pre></section>\n");
}

}  // namespace

std::vector<BandPoint> LossBand(absl::Span<const RunResult> results, const std::string& setting,
                                Place (*x)(const ResultRow& row)) {
  struct AtVersion {
    std::vector<double> losses, places;
  };
  std::map<uint64_t, AtVersion> versions;
  size_t seeds = 0;
  for (const RunResult& result : results) {
    if (result.setting != setting) continue;
    ++seeds;
    for (const ResultRow& row : result.rows) {
      const Place place = x(row);
      if (!row.loss || !place) continue;
      versions[row.version].losses.push_back(*row.loss);
      versions[row.version].places.push_back(*place);
    }
  }
  std::vector<BandPoint> band;
  for (const auto& [version, at] : versions) {
    if (at.losses.size() != seeds) continue;
    const MeanAndSpread loss = Summarise(at.losses);
    band.push_back({Summarise(at.places).mean, loss.mean, loss.spread});
  }
  return band;
}

std::string ReportHtml(const Experiment& experiment, const ReportInput& input) {
  const std::vector<SettingRow> table = MakeTable(
      experiment.SettingNames(), experiment.seeds.size(), input.results, experiment.target_loss);
  const size_t planned = experiment.settings.size() * experiment.seeds.size();
  std::string summary =
      absl::StrCat(Counted(experiment.settings.size(), "setting"), ", ",
                   Counted(experiment.seeds.size(), "seed"), ", ", input.results.size(), " of ",
                   Counted(planned, "run"), " finished");
  if (!input.results.empty() && input.results.front().parameters > 0) {
    absl::StrAppend(&summary, "; ", WithThousands(input.results.front().parameters), " parameters");
  }
  const std::string unit = UnitOf(input.results);
  std::string caption = "Mean and standard deviation over the seeds";
  if (!unit.empty()) absl::StrAppend(&caption, "; losses in ", unit);
  if (experiment.target_loss > 0) {
    absl::StrAppend(&caption, "; the target is a loss of ",
                    absl::StrFormat("%g", experiment.target_loss));
  }
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>",
      HtmlText(experiment.name),
      " - Atoll experiment</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>",
      kReportStyle, "</style></head>\n<body><main>\n<h1>", HtmlText(experiment.name), "</h1>\n<p>",
      HtmlText(summary), ".</p>\n<section><h2>Results</h2>\n",
      TableHtml(TextOf(table, experiment.target_loss), caption),
      "</section>\n<section><h2>Curves</h2>\n<p>Lines are means over the seeds, bands one standard "
      "deviation to each side.</p>\n",
      CurvesHtml(experiment, input.results), "</section>\n", OwnLossHtml(table, unit),
      PartitionsHtml(input.partitions), DifferencesHtml(experiment), RunsHtml(input.results),
      RepeatHtml(experiment, input), "</main></body></html>\n");
}

}  // namespace atolld
