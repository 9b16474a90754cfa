#include "daemon/cli/local/local_report.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/cli/chart.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/figures/figures.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"
#include "membership/history/run_codecs.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

std::string LossRow(const std::optional<double>& loss, const std::string& unit) {
  return loss ? LossText(*loss, unit) : "not evaluated";
}

// Returns "4.3 MB (4.0x)": what another method would have sent, and how many times this run's bytes
// that is.
std::string Compared(double bytes, std::optional<double> ours) {
  if (!ours || *ours <= 0) return FormatBytes(bytes);
  return absl::StrCat(FormatBytes(bytes), " (", FormatRatio(bytes / *ours), ")");
}

// Returns null for a count of 0, which means that it is not known.
nlohmann::ordered_json CountJson(uint64_t count) {
  return count == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(count);
}

std::string DigestText(const LocalReport& report) {
  if (report.state_digest.empty()) return "the run is not sealed";
  if (!report.digests_agree())
    return absl::StrCat(report.state_digest.substr(0, 16), ", PEERS DIFFER");
  size_t holders = 0;
  for (const LocalReport::Peer& peer : report.peers) {
    if (peer.version == report.rounds && !peer.state_digest.empty()) ++holders;
  }
  return absl::StrCat(report.state_digest.substr(0, 16), ", the same at ", holders, " of ",
                      Counted(report.peers.size(), "peer"));
}

}  // namespace

bool LocalReport::digests_agree() const {
  std::string expected = state_digest;
  for (const Peer& peer : peers) {
    if (peer.version != rounds || peer.state_digest.empty()) continue;
    if (expected.empty()) expected = peer.state_digest;
    if (peer.state_digest != expected) return false;
  }
  return true;
}

double AllReduceBytes(uint64_t parameters, uint32_t peers) {
  if (peers < 2) return 0;
  return 2.0 * (peers - 1) / peers * sizeof(float) * static_cast<double>(parameters);
}

LocalReport MakeLocalReport(const RunHistory& history, const std::vector<PeerProcess>& processes) {
  const v1::RunStatus& status = history.newest();
  LocalReport report;
  report.run_id = status.spec().run_id();
  report.rounds = status.version();
  report.inner_steps = status.spec().inner().steps();
  report.peers_started = static_cast<uint32_t>(processes.size());
  report.loss_unit = history.loss_unit();
  for (const auto& [version, evaluation] : history.evaluations()) {
    const std::optional<double> loss = EvaluatedLoss(evaluation);
    if (version == 0) report.initial_val_loss = loss;
    // A run may be sealed without the loss of its last version; an earlier one's is not its own.
    const bool own = !status.has_seal() || version == status.seal().version();
    if (version > 0 && own && loss) report.final_val_loss = loss;
  }
  report.tokens = status.tokens();
  report.wall_seconds = history.wall_seconds();
  report.compute_utilization = history.compute_utilization();
  report.least_busy = history.least_busy();
  report.parameters = status.parameters();
  report.codec = CodecText(status.spec().exchange());
  report.bytes_sent_per_peer_per_round = history.bytes_sent_per_peer_per_round();
  report.fp32_bytes_per_peer_per_round = AllReduceBytes(report.parameters, report.peers_started);
  report.data_parallel_bytes_per_peer_per_round =
      report.fp32_bytes_per_peer_per_round * static_cast<double>(report.inner_steps);
  report.noise = status.noise();
  if (status.has_seal()) report.state_digest = absl::BytesToHexString(status.seal().state_digest());
  for (const PeerProcess& process : processes) {
    LocalReport::Peer peer;
    peer.process = process;
    const auto found = history.peers().find(process.id);
    if (found != history.peers().end()) {
      const v1::PeerStatus& newest = found->second.newest;
      peer.rounds_contributed = newest.rounds_contributed();
      peer.tokens = newest.tokens();
      peer.version = newest.state_version();
      peer.state_digest = absl::BytesToHexString(newest.state_digest());
    }
    report.peers.push_back(std::move(peer));
  }
  return report;
}

std::string ReportJson(const LocalReport& report) {
  nlohmann::ordered_json json;
  json["run_id"] = report.run_id;
  json["rounds"] = report.rounds;
  json["peers_started"] = report.peers_started;
  json["initial_val_loss"] = OrNull(report.initial_val_loss);
  json["final_val_loss"] = OrNull(report.final_val_loss);
  json["loss_unit"] = report.loss_unit;
  json["tokens"] = report.tokens;
  json["wall_seconds"] = OrNull(report.wall_seconds);
  json["compute_utilization"] = OrNull(report.compute_utilization);
  json["least_busy"] = OrNull(report.least_busy);
  json["parameters"] = CountJson(report.parameters);
  json["inner_steps"] = CountJson(report.inner_steps);
  json["codec"] = report.codec;
  json["bytes_sent_per_peer_per_round"] = OrNull(report.bytes_sent_per_peer_per_round);
  json["fp32_bytes_per_peer_per_round"] = nullptr;
  if (report.parameters > 0) {
    json["fp32_bytes_per_peer_per_round"] = report.fp32_bytes_per_peer_per_round;
  }
  json["gradient_noise_scale"] = nullptr;
  if (report.noise.tokens() > 0) json["gradient_noise_scale"] = report.noise.tokens();
  json["state_digest"] = report.state_digest;
  json["peers"] = nlohmann::ordered_json::array();
  for (const LocalReport::Peer& peer : report.peers) {
    nlohmann::ordered_json one;
    one["id"] = peer.process.id;
    one["pid"] = peer.process.pid;
    one["rounds_contributed"] = peer.rounds_contributed;
    one["tokens"] = peer.tokens;
    one["version"] = nullptr;
    if (!peer.state_digest.empty()) one["version"] = peer.version;
    one["state_digest"] = peer.state_digest;
    one["exit"] = OrNull(peer.process.exit);
    json["peers"].push_back(std::move(one));
  }
  return JsonText(json);
}

std::vector<std::string> ReportTable(const LocalReport& report) {
  const std::optional<double> ours = report.bytes_sent_per_peer_per_round;
  std::vector<std::vector<std::string>> rows = {
      {"run", report.run_id},
      {"rounds", absl::StrCat(report.rounds, " of ", Counted(report.inner_steps, "step"), ", ",
                              Counted(report.peers_started, "peer"))},
      {"parameters", report.parameters == 0 ? "not known" : WithThousands(report.parameters)},
      {"validation loss before", LossRow(report.initial_val_loss, report.loss_unit)},
      {"validation loss after", LossRow(report.final_val_loss, report.loss_unit)},
      {"tokens", WithThousands(report.tokens)},
      {"time", report.wall_seconds ? absl::StrCat(FormatSeconds(*report.wall_seconds),
                                                  " from version 0 to the last commit")
                                   : "not known"},
      {"compute utilisation",
       report.compute_utilization ? FormatPercent(*report.compute_utilization) : "not known"},
  };
  if (report.least_busy && report.peers_started > 1) {
    rows.push_back({"  of the least busy peer", FormatPercent(*report.least_busy)});
  }
  rows.push_back(
      {"sent a peer a round", absl::StrCat(KnownText(ours, FormatBytes), " as ", report.codec)});
  if (report.peers_started > 1 && report.parameters > 0) {
    rows.push_back({"  the same in fp32", Compared(report.fp32_bytes_per_peer_per_round, ours)});
    rows.push_back({"  fp32 data parallel, every step",
                    Compared(report.data_parallel_bytes_per_peer_per_round, ours)});
  }
  if (report.noise.tokens() > 0) {
    rows.push_back({"gradient noise scale",
                    absl::StrCat(AboutTokens(report.noise.tokens()), " tokens a round")});
    rows.push_back({absl::StrCat("  these peers make ", WithThousands(report.noise.round_tokens())),
                    NoiseVerdict(report.noise)});
  } else {
    rows.push_back({"gradient noise scale", NoiseText(report.noise)});
  }
  rows.push_back({"state digest", DigestText(report)});
  return AlignColumns(rows, "<<");
}

Chart LossChart(const RunHistory& history) {
  const std::string unit = history.loss_unit();
  Chart chart{unit.empty() ? "loss" : "loss, " + unit, "round", unit, {}};
  Series train{"training", {}, false};
  for (const auto& [version, round] : history.rounds()) {
    if (round.train_loss() == 0) continue;  // not known: adopted from the peers' history
    train.points.emplace_back(static_cast<double>(version), round.train_loss());
  }
  Series validation{"validation", {}, true};
  for (const auto& [version, evaluation] : history.evaluations()) {
    const std::optional<double> loss = EvaluatedLoss(evaluation);
    if (loss) validation.points.emplace_back(static_cast<double>(version), *loss);
  }
  chart.series = {std::move(train), std::move(validation)};
  return chart;
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr int kChartColumns = 76;
constexpr int kChartRows = 16;
constexpr int kSampleLines = 6;
// Any text contains it, and a model of any English text can continue it.
constexpr char kPrompt[] = "The ";

void Complain(FILE* out, const absl::Status& status, const std::string& what) {
  if (!status.ok()) PrintLine(out, absl::StrCat(what, ": ", status.message()));
}

// Returns the model's bytes in a form that a terminal can take: unprintable ones become '.', and
// long lines are cut.
std::vector<std::string> SampleLines(const std::string& text, size_t columns) {
  std::string clean;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    clean += c == '\n' || (byte >= 0x20 && byte < 0x7f) ? c : '.';
  }
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(clean, '\n', absl::SkipWhitespace())) {
    if (lines.size() == kSampleLines) break;
    lines.push_back(absl::StrCat("  ", CutToWidth(line, columns - 2, Charset::kAscii)));
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
  PrintLine(out, absl::StrCat("The model goes on from \"", kPrompt, "\":"));
  for (const std::string& line : SampleLines(*text, epilogue.columns)) PrintLine(out, line);
  PrintLine(out, "");
}

void SayWhatIsNext(const LocalEpilogue& epilogue) {
  FILE* const out = epilogue.out;
  PrintLine(out, "Try next:");
  PrintLine(out,
            absl::StrCat("  ", ShellCommand({"atoll", "generate", "--dir", epilogue.dir, "--prompt",
                                             "A house is", "--temperature", "0.6"})));
  PrintLine(out, absl::StrCat("  ", ShellCommand({"atoll", "local", "--config", epilogue.config,
                                                  "--data", "YOUR-TEXT-FILE"})));
  PrintLine(out,
            absl::StrCat("  ", ShellCommand({"atoll", "run", "branch", "--from", epilogue.dir,
                                             "--rounds", "20", "--dir", epilogue.dir + "-more"})));
}

}  // namespace

std::string FinishLocalRun(Files& files, const RunHistory& history, const LocalReport& report,
                           const LocalEpilogue& epilogue) {
  FILE* const out = epilogue.out;
  std::string why;
  if (epilogue.json == "-") {
    std::fputs(ReportJson(report).c_str(), stdout);
  } else if (!epilogue.json.empty()) {
    const absl::Status written =
        WriteFileDurably(files, epilogue.json, BytesOf(ReportJson(report)));
    Complain(out, written, "the report was not written");
    if (!written.ok()) why = absl::StrCat("the report was not written: ", written.message());
  }

  PrintLine(out, "");
  for (const std::string& line : ReportTable(report))
    PrintLine(out, CutToWidth(line, epilogue.columns, epilogue.charset));
  PrintLine(out, "");
  const Chart chart = LossChart(history);
  const int columns = std::min(static_cast<int>(epilogue.columns), kChartColumns);
  for (const std::string& line : DrawChart(chart, columns, kChartRows, epilogue.charset)) {
    PrintLine(out, line);
  }
  PrintLine(out, "");
  const std::string picture = absl::StrCat(epilogue.dir, "/loss.svg");
  const absl::Status drawn = WriteFileDurably(files, picture, BytesOf(ChartSvg(chart)));
  Complain(out, drawn, "the loss curve was not saved");
  const std::string figures = absl::StrCat(epilogue.dir, "/", kMetricsFile);
  const absl::Status listed =
      WriteFileDurably(files, figures, BytesOf(MetricsJsonLines(RunMetrics(history))));
  Complain(out, listed, "the rounds' figures were not saved");

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
  if (listed.ok()) places.push_back({"figures", figures});
  places.push_back({"everything else", epilogue.dir});
  for (const std::string& line : AlignColumns(places, "<<")) PrintLine(out, line);
  if (!epilogue.worker.empty()) SayWhatIsNext(epilogue);
  if (!report.digests_agree()) {
    why = "the peers' states differ: compare them with `atoll log verify`";
    PrintLine(out, why);
  }
  return why;
}

}  // namespace atolld
