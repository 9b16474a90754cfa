#include "daemon/cli/local/local_epilogue.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "daemon/cli/chart.h"
#include "daemon/cli/format.h"
#include "daemon/cli/worker_tool.h"

namespace atolld {
namespace {

constexpr int kChartColumns = 76;
constexpr int kChartRows = 16;
constexpr int kSampleLines = 6;
// Any text has it, and a model of any English text goes on from it.
constexpr char kPrompt[] = "The ";

void Print(FILE* out, const std::string& line) { std::fputs((line + "\n").c_str(), out); }

void Complain(FILE* out, const absl::Status& status, const std::string& what) {
  if (!status.ok()) Print(out, absl::StrCat(what, ": ", status.message()));
}

// The model's bytes as a terminal can take them: what is not printable becomes '.', long lines are
// cut.
std::vector<std::string> Printable(const std::string& text, size_t columns) {
  std::string clean;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    clean += c == '\n' || (byte >= 0x20 && byte < 0x7f) ? c : '.';
  }
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(clean, '\n', absl::SkipWhitespace())) {
    if (lines.size() == kSampleLines) break;
    lines.push_back(absl::StrCat("  ", CutToWidth(line, columns - 2)));
  }
  return lines;
}

void ShowSample(Files& files, const LocalEpilogue& epilogue) {
  FILE* const out = epilogue.out;
  const absl::StatusOr<std::string> text =
      GenerateText(files, epilogue.worker, epilogue.dir,
                   GenerateRequest{kPrompt, 300, 0.8, 40, 1337, epilogue.base});
  Complain(out, text.status(), "no text was generated");
  if (!text.ok()) return;
  Print(out, absl::StrCat("The model goes on from \"", kPrompt, "\":"));
  for (const std::string& line : Printable(*text, epilogue.columns)) Print(out, line);
  Print(out, "");
}

void SayWhatIsNext(const LocalEpilogue& epilogue) {
  FILE* const out = epilogue.out;
  Print(out, "Try next:");
  Print(out, absl::StrCat("  ", ShellCommand({"atoll", "generate", "--dir", epilogue.dir,
                                              "--prompt", "A house is", "--temperature", "0.6"})));
  Print(out, absl::StrCat("  ", ShellCommand({"atoll", "local", "--config", epilogue.config,
                                              "--data", "YOUR-TEXT-FILE"})));
}

}  // namespace

bool FinishLocalRun(Files& files, const RunHistory& history, const LocalReport& report,
                    const LocalEpilogue& epilogue) {
  FILE* const out = epilogue.out;
  bool good = true;
  if (epilogue.json == "-") {
    std::fputs(ReportJson(report).c_str(), stdout);
  } else if (!epilogue.json.empty()) {
    const absl::Status written =
        WriteFileDurably(files, epilogue.json, BytesOf(ReportJson(report)));
    Complain(out, written, "the report was not written");
    good = written.ok();
  }

  Print(out, "");
  for (const std::string& line : ReportTable(report))
    Print(out, CutToWidth(line, epilogue.columns));
  Print(out, "");
  const Chart chart = LossChart(history);
  const int columns = std::min(static_cast<int>(epilogue.columns), kChartColumns);
  for (const std::string& line : DrawChart(chart, columns, kChartRows)) Print(out, line);
  Print(out, "");
  const std::string picture = absl::StrCat(epilogue.dir, "/loss.svg");
  const absl::Status drawn = WriteFileDurably(files, picture, BytesOf(ChartSvg(chart)));
  Complain(out, drawn, "the loss curve was not saved");

  std::string model;
  if (!epilogue.worker.empty()) {
    ShowSample(files, epilogue);
    model = absl::StrCat(epilogue.dir, "/model.safetensors");
    const absl::Status exported = ExportModel(files, epilogue.worker, epilogue.dir, model);
    Complain(out, exported, "the model was not exported");
    if (!exported.ok()) model.clear();
  }
  std::vector<std::vector<std::string>> places;
  if (!model.empty()) places.push_back({"model", model});
  if (drawn.ok()) places.push_back({"loss curve", picture});
  places.push_back({"everything else", epilogue.dir});
  for (const std::string& line : AlignColumns(places, "<<")) Print(out, line);
  if (!epilogue.worker.empty()) SayWhatIsNext(epilogue);
  if (!report.digests_agree()) {
    Print(out, "the peers' states differ: compare them with `atoll log verify`");
    good = false;
  }
  return good;
}

}  // namespace atolld
