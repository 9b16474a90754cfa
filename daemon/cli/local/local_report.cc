#include "daemon/cli/local/local_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/cli/format.h"
#include "daemon/cli/status_json.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

std::string LossText(const std::optional<double>& loss, const std::string& unit) {
  if (!loss.has_value()) return "not evaluated";
  return absl::StrCat(absl::StrFormat("%.4f", *loss), unit.empty() ? "" : " ", unit);
}

// "4.3 MB (4.0x)": what another way would have sent, and how many times ours that is.
std::string Compared(double bytes, double ours) {
  if (ours <= 0) return FormatBytes(bytes);
  return absl::StrCat(FormatBytes(bytes), " (", FormatRatio(bytes / ours), ")");
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
                      report.peers.size(), " peers");
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
  const auto& evaluations = history.evaluations();
  if (!evaluations.empty()) {
    if (evaluations.begin()->first == 0)
      report.initial_val_loss = evaluations.begin()->second.loss();
    if (evaluations.rbegin()->first > 0)
      report.final_val_loss = evaluations.rbegin()->second.loss();
  }
  report.tokens = status.tokens();
  report.wall_seconds = history.wall_seconds();
  report.compute_utilization = history.compute_utilization();
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
  json["tokens"] = report.tokens;
  json["wall_seconds"] = report.wall_seconds;
  json["compute_utilization"] = report.compute_utilization;
  json["parameters"] = report.parameters;
  json["inner_steps"] = report.inner_steps;
  json["codec"] = report.codec;
  json["bytes_sent_per_peer_per_round"] = report.bytes_sent_per_peer_per_round;
  json["fp32_bytes_per_peer_per_round"] = report.fp32_bytes_per_peer_per_round;
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
    one["version"] = peer.version;
    one["state_digest"] = peer.state_digest;
    one["exit"] = OrNull(peer.process.exit);
    json["peers"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<std::string> ReportTable(const LocalReport& report) {
  const double ours = report.bytes_sent_per_peer_per_round;
  std::vector<std::vector<std::string>> rows = {
      {"run", report.run_id},
      {"rounds", absl::StrCat(report.rounds, " of ", report.inner_steps, " steps, ",
                              report.peers_started, " peers")},
      {"parameters", WithThousands(report.parameters)},
      {"validation loss before", LossText(report.initial_val_loss, report.loss_unit)},
      {"validation loss after", LossText(report.final_val_loss, report.loss_unit)},
      {"tokens", WithThousands(report.tokens)},
      {"time",
       absl::StrCat(FormatSeconds(report.wall_seconds), " from version 0 to the last commit")},
      {"compute utilisation", absl::StrFormat("%.1f %%", report.compute_utilization * 100)},
  };
  rows.push_back({"sent a peer a round", absl::StrCat(FormatBytes(ours), " as ", report.codec)});
  if (report.peers_started > 1) {
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
    validation.points.emplace_back(static_cast<double>(version), evaluation.loss());
  }
  chart.series = {std::move(train), std::move(validation)};
  return chart;
}

}  // namespace atolld
