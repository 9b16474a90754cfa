#include "daemon/cli/exposition.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/string_view.h"

namespace atolld {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;
using prometheus::MetricType;

// 0 stands for a figure that was not measured.
std::optional<double> Known(double value) {
  return value == 0 ? std::nullopt : std::optional<double>(value);
}

std::optional<double> Whole(uint64_t value) { return static_cast<double>(value); }

// A metric of the whole run, or of one peer.
template <typename Of>
struct Metric {
  const char* name;
  MetricType type;
  const char* help;
  std::optional<double> (*value)(const Of&);
};

const v1::RoundRecord& LastRound(const v1::RunStatus& status) {
  return status.rounds().empty() ? v1::RoundRecord::default_instance() : *status.rounds().rbegin();
}

constexpr MetricType kGauge = MetricType::Gauge;
constexpr MetricType kCounter = MetricType::Counter;

constexpr Metric<v1::RunStatus> kRunMetrics[] = {
    {"atoll_run_version", kGauge, "Newest committed version of the model",
     [](const v1::RunStatus& run) { return Whole(run.version()); }},
    {"atoll_run_rounds", kGauge, "Versions to commit before the run is sealed",
     [](const v1::RunStatus& run) { return Whole(run.spec().rounds()); }},
    {"atoll_run_parameters", kGauge, "Parameters of the model",
     [](const v1::RunStatus& run) { return Whole(run.parameters()); }},
    {"atoll_run_tokens_total", kCounter, "Training tokens in committed rounds",
     [](const v1::RunStatus& run) { return Whole(run.tokens()); }},
    {"atoll_run_elapsed_seconds", kGauge, "Time since the first round began",
     [](const v1::RunStatus& run) { return std::optional<double>(run.elapsed_seconds()); }},
    {"atoll_run_epoch", kGauge, "Epoch of the coordinator: one more with each of its starts",
     [](const v1::RunStatus& run) { return Whole(run.epoch()); }},
    {"atoll_run_paused", kGauge, "1 while an operator has paused it",
     [](const v1::RunStatus& run) { return Whole(run.paused() ? 1 : 0); }},
    {"atoll_run_waiting", kGauge, "1 while it waits for something",
     [](const v1::RunStatus& run) { return Whole(run.phase() == "waiting" ? 1 : 0); }},
    {"atoll_run_sealed", kGauge, "1 once it is sealed",
     [](const v1::RunStatus& run) { return Whole(run.has_seal() ? 1 : 0); }},
    {"atoll_run_train_loss", kGauge, "Mean training loss of the newest round",
     [](const v1::RunStatus& run) { return Known(LastRound(run).train_loss()); }},
    {"atoll_run_validation_loss", kGauge, "Validation loss of the newest version that has one",
     [](const v1::RunStatus& run) {
       return run.evaluations().empty() ? std::nullopt
                                        : std::optional<double>(run.evaluations().rbegin()->loss());
     }},
    {"atoll_run_round_contributors", kGauge, "Peers whose updates count in the newest round",
     [](const v1::RunStatus& run) { return Known(LastRound(run).contributors()); }},
    {"atoll_run_round_train_seconds", kGauge, "Inner steps of the newest round, mean of its peers",
     [](const v1::RunStatus& run) { return Known(LastRound(run).train_seconds()); }},
    {"atoll_run_round_exchange_seconds", kGauge, "Exchange of the newest round",
     [](const v1::RunStatus& run) { return Known(LastRound(run).exchange_seconds()); }},
    {"atoll_run_round_predicted_seconds", kGauge, "What that exchange was predicted to take",
     [](const v1::RunStatus& run) { return Known(LastRound(run).predicted_seconds()); }},
    {"atoll_run_round_audit_seconds", kGauge, "Audit of the newest round",
     [](const v1::RunStatus& run) { return Known(LastRound(run).audit_seconds()); }},
    {"atoll_run_noise_scale_tokens", kGauge, "Gradient noise scale",
     [](const v1::RunStatus& run) { return Known(run.noise().tokens()); }},
};

constexpr Metric<v1::PeerStatus> kPeerMetrics[] = {
    {"atoll_peer_up", kGauge, "1 while the coordinator hears of it",
     [](const v1::PeerStatus& peer) { return Whole(peer.member().state() == "live" ? 1 : 0); }},
    {"atoll_peer_version", kGauge, "Version of the model that it holds",
     [](const v1::PeerStatus& peer) { return Whole(peer.progress().version()); }},
    {"atoll_peer_rounds_total", kCounter, "Rounds that it contributed to",
     [](const v1::PeerStatus& peer) { return Whole(peer.rounds_contributed()); }},
    {"atoll_peer_tokens_total", kCounter, "Its training tokens in committed rounds",
     [](const v1::PeerStatus& peer) { return Whole(peer.tokens()); }},
    {"atoll_peer_tokens_per_second", kGauge, "Speed of its inner steps",
     [](const v1::PeerStatus& peer) { return Known(peer.progress().tokens_per_second()); }},
    {"atoll_peer_train_seconds_total", kCounter, "Its inner steps, since its daemon began",
     [](const v1::PeerStatus& peer) {
       return std::optional<double>(peer.progress().train_seconds());
     }},
    {"atoll_peer_exchange_sent_bytes_total", kCounter,
     "Bytes that it sent in exchanges, since its daemon began",
     [](const v1::PeerStatus& peer) { return Whole(peer.progress().exchange_bytes_sent()); }},
    {"atoll_peer_resident_bytes", kGauge, "Memory of its daemon",
     [](const v1::PeerStatus& peer) {
       return Known(static_cast<double>(peer.progress().resident_bytes()));
     }},
    {"atoll_peer_up_bytes_per_second", kGauge, "The most that its line was seen to send",
     [](const v1::PeerStatus& peer) { return Known(peer.up_bytes_per_second()); }},
    {"atoll_peer_down_bytes_per_second", kGauge, "The most that its line was seen to receive",
     [](const v1::PeerStatus& peer) { return Known(peer.down_bytes_per_second()); }},
    {"atoll_peer_updates_refused_total", kCounter, "Chunks and updates of it that were refused",
     [](const v1::PeerStatus& peer) { return Whole(peer.updates_refused()); }},
    {"atoll_peer_updates_clipped_total", kCounter, "Updates of it that were scaled down",
     [](const v1::PeerStatus& peer) { return Whole(peer.updates_clipped()); }},
    {"atoll_peer_audits_failed_total", kCounter, "Means that it made and that an audit found wrong",
     [](const v1::PeerStatus& peer) { return Whole(peer.audits_failed()); }},
    {"atoll_peer_worker_failures", kGauge, "How often in a row its worker has ended",
     [](const v1::PeerStatus& peer) { return Whole(peer.worker_failures()); }},
};

template <typename Of>
prometheus::MetricFamily FamilyOf(const Metric<Of>& metric) {
  prometheus::MetricFamily family;
  family.name = metric.name;
  family.help = metric.help;
  family.type = metric.type;
  return family;
}

template <typename Of>
void AddSample(const Metric<Of>& metric, const Of& of, const Labels& labels,
               prometheus::MetricFamily* family) {
  const std::optional<double> value = metric.value(of);
  if (!value.has_value()) return;
  prometheus::ClientMetric sample;
  sample.label = labels;
  (metric.type == kCounter ? sample.counter.value : sample.gauge.value) = *value;
  family->metric.push_back(std::move(sample));
}

Labels LabelsOf(const std::string& run, const v1::PeerStatus& peer) {
  return {{"run", run},
          {"peer", peer.member().peer()},
          {"region", peer.member().region()},
          {"role", peer.role()}};
}

template <typename Of>
void AddNames(const Metric<Of>& metric, std::vector<MetricName>* names) {
  names->push_back({metric.name, metric.type == kCounter ? "counter" : "gauge", metric.help});
}

}  // namespace

std::vector<MetricName> MetricNames() {
  std::vector<MetricName> names;
  for (const auto& metric : kRunMetrics) AddNames(metric, &names);
  for (const auto& metric : kPeerMetrics) AddNames(metric, &names);
  return names;
}

std::string Exposition(const v1::RunStatus& status) {
  const std::string& run = status.spec().run_id();
  std::vector<prometheus::MetricFamily> families;
  const auto add = [&families](prometheus::MetricFamily family) {
    if (!family.metric.empty()) families.push_back(std::move(family));
  };
  for (const auto& metric : kRunMetrics) {
    prometheus::MetricFamily family = FamilyOf(metric);
    AddSample(metric, status, {{"run", run}}, &family);
    add(std::move(family));
  }
  for (const auto& metric : kPeerMetrics) {
    prometheus::MetricFamily family = FamilyOf(metric);
    for (const v1::PeerStatus& peer : status.peers()) {
      AddSample(metric, peer, LabelsOf(run, peer), &family);
    }
    add(std::move(family));
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

}  // namespace atolld
