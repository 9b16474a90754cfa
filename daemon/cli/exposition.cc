#include "daemon/cli/exposition.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "membership/run/utilisation.h"

namespace atolld {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;
using Families = std::vector<prometheus::MetricFamily>;
using prometheus::MetricType;

// 0 stands for a figure that was not measured.
std::optional<double> Known(double value) {
  return value == 0 ? std::nullopt : std::optional<double>(value);
}
std::optional<double> Known(uint64_t value) { return Known(static_cast<double>(value)); }
std::optional<double> Known(uint32_t value) { return Known(static_cast<double>(value)); }

std::optional<double> Whole(uint64_t value) { return static_cast<double>(value); }

// One series of whatever it is about.
template <typename Of>
struct Metric {
  const char* name;
  MetricType type;
  const char* help;
  std::optional<double> (*value)(const Of&);
};

// Which of a few states something is in: one series, of value 1, whose label `label` names it.
template <typename Of>
struct StateMetric {
  const char* name;
  const char* help;
  const char* label;
  absl::string_view (*state)(const Of&);
};

const v1::RoundRecord& LastRound(const v1::RunStatus& status) {
  return status.rounds().empty() ? v1::RoundRecord::default_instance() : *status.rounds().rbegin();
}

const v1::EvaluationRecord& LastEvaluation(const v1::RunStatus& status) {
  return status.evaluations().empty() ? v1::EvaluationRecord::default_instance()
                                      : *status.evaluations().rbegin();
}

// Whoever tells it may tell anything.
template <size_t n>
absl::string_view OneOf(const absl::string_view (&known)[n], absl::string_view told) {
  return std::find(std::begin(known), std::end(known), told) == std::end(known) ? "other" : told;
}

constexpr absl::string_view kPeerPhases[] = {"starting", "syncing",    "training",   "waiting",
                                             "masking",  "exchanging", "evaluating", "stopped"};

absl::string_view PhaseOf(const v1::PeerProgress& progress) {
  return OneOf(kPeerPhases, progress.phase());
}

// Of a share that is not known no bytes are told either.
std::optional<double> HiddenBytes(const v1::Utilisation& utilisation) {
  if (!TrainedShare(utilisation)) return std::nullopt;
  return static_cast<double>(utilisation.hidden_bytes());
}

std::optional<double> WaitedBytes(const v1::Utilisation& utilisation) {
  if (!TrainedShare(utilisation)) return std::nullopt;
  return static_cast<double>(utilisation.waited_bytes());
}

bool IsHeardOf(const v1::PeerStatus& peer) {
  const std::string& state = peer.member().state();
  return state == "live" || state == "joining" || state == "suspect";
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
    {"atoll_run_own_loss_mean", kGauge, "Mean loss of the parties on what each has held out",
     [](const v1::RunStatus& run) { return Known(LastEvaluation(run).own_mean()); }},
    {"atoll_run_own_loss_tenth", kGauge, "10th percentile of the parties' own losses",
     [](const v1::RunStatus& run) { return Known(LastEvaluation(run).own_tenth()); }},
    {"atoll_run_own_loss_ninetieth", kGauge, "90th percentile of the parties' own losses",
     [](const v1::RunStatus& run) { return Known(LastEvaluation(run).own_ninetieth()); }},
    {"atoll_run_own_loss_parties", kGauge, "Parties that have told a loss of their own",
     [](const v1::RunStatus& run) { return Known(LastEvaluation(run).own_parties()); }},
    {"atoll_run_round_parties", kGauge, "Parties behind the peers of the newest round",
     [](const v1::RunStatus& run) { return Known(LastRound(run).parties()); }},
    {"atoll_run_round_contributors", kGauge, "Peers whose updates count in the newest round",
     [](const v1::RunStatus& run) { return Known(LastRound(run).contributors()); }},
    {"atoll_run_round_train_seconds", kGauge, "Inner steps of the newest round, mean of its peers",
     [](const v1::RunStatus& run) { return Known(LastRound(run).train_seconds()); }},
    {"atoll_run_round_exchange_seconds", kGauge, "Exchange of the newest round",
     [](const v1::RunStatus& run) { return Known(LastRound(run).exchange_seconds()); }},
    {"atoll_run_round_predicted_seconds", kGauge, "What that exchange was predicted to take",
     [](const v1::RunStatus& run) { return Known(LastRound(run).predicted_seconds()); }},
    {"atoll_run_round_audit_seconds", kGauge, "Audit of the newest round",
     [](const v1::RunStatus& run) {  // none may take no time at all, which is known too
       const v1::RoundRecord& last = LastRound(run);
       return last.exchange_seconds() > 0 ? std::optional<double>(last.audit_seconds())
                                          : std::nullopt;
     }},
    {"atoll_run_round_utilisation_ratio", kGauge,
     "Share of its peers' time that was inner steps, of the newest round",
     [](const v1::RunStatus& run) { return TrainedShare(LastRound(run).utilisation()); }},
    {"atoll_run_round_hidden_bytes", kGauge,
     "Bytes of the exchange before the newest round's that passed while workers trained",
     [](const v1::RunStatus& run) { return HiddenBytes(LastRound(run).utilisation()); }},
    {"atoll_run_round_waited_bytes", kGauge, "The same while workers waited",
     [](const v1::RunStatus& run) { return WaitedBytes(LastRound(run).utilisation()); }},
    {"atoll_run_noise_scale_tokens", kGauge, "Gradient noise scale",
     [](const v1::RunStatus& run) { return Known(run.noise().tokens()); }},
    {"atoll_run_privacy_epsilon", kGauge, "Epsilon of differential privacy that is spent",
     [](const v1::RunStatus& run) { return Known(LastRound(run).epsilon()); }},
    {"atoll_run_predicted_end_timestamp_seconds", kGauge,
     "When it will be sealed at the pace of recent rounds, Unix time",
     [](const v1::RunStatus& run) { return Known(run.predicted_end_unix_seconds()); }},
};

constexpr StateMetric<v1::RunStatus> kRunStates[] = {
    {"atoll_run_phase", "1 for the phase that it is in, the label `phase`", "phase",
     [](const v1::RunStatus& run) -> absl::string_view { return run.phase(); }},
};

constexpr Metric<v1::LinkStatus> kLinkMetrics[] = {
    {"atoll_link_predicted_bytes_per_second", kGauge,
     "What the newest plan counted on between two regions, the labels `from` and `to`",
     [](const v1::LinkStatus& link) { return Known(link.predicted_bytes_per_second()); }},
    {"atoll_link_measured_bytes_per_second", kGauge, "What the newest exchange has shown there",
     [](const v1::LinkStatus& link) { return Known(link.measured_bytes_per_second()); }},
    {"atoll_link_latency_seconds", kGauge, "How long a byte takes there",
     [](const v1::LinkStatus& link) { return Known(link.seconds()); }},
};

// What the coordinator knows of a peer.
constexpr Metric<v1::PeerStatus> kPeerMetrics[] = {
    {"atoll_peer_up", kGauge, "1 while the coordinator hears of it",
     [](const v1::PeerStatus& peer) { return Whole(peer.member().state() == "live" ? 1 : 0); }},
    {"atoll_peer_rounds_total", kCounter, "Rounds that it contributed to",
     [](const v1::PeerStatus& peer) { return Whole(peer.rounds_contributed()); }},
    {"atoll_peer_tokens_total", kCounter, "Its training tokens in committed rounds",
     [](const v1::PeerStatus& peer) { return Whole(peer.tokens()); }},
    {"atoll_peer_mean_share_ratio", kGauge, "Share of its weight in the newest round's mean",
     [](const v1::PeerStatus& peer) { return std::optional<double>(peer.mean_share()); }},
    {"atoll_peer_ready_seconds", kGauge,
     "From the start of its training to its update in the newest round",
     [](const v1::PeerStatus& peer) { return Known(peer.ready_seconds()); }},
    {"atoll_peer_utilisation_ratio", kGauge,
     "Share of the time that was inner steps, of its newest update",
     [](const v1::PeerStatus& peer) { return TrainedShare(peer.utilisation()); }},
    {"atoll_peer_hidden_bytes", kGauge,
     "Bytes that it exchanged while its worker trained, of its newest update",
     [](const v1::PeerStatus& peer) { return HiddenBytes(peer.utilisation()); }},
    {"atoll_peer_waited_bytes", kGauge, "The same while its worker waited",
     [](const v1::PeerStatus& peer) { return WaitedBytes(peer.utilisation()); }},
    {"atoll_peer_up_bytes_per_second", kGauge, "The most that its line was seen to send",
     [](const v1::PeerStatus& peer) { return Known(peer.up_bytes_per_second()); }},
    {"atoll_peer_down_bytes_per_second", kGauge, "The most that its line was seen to receive",
     [](const v1::PeerStatus& peer) { return Known(peer.down_bytes_per_second()); }},
    {"atoll_peer_up_cap_bytes_per_second", kGauge, "What its owner lets it send",
     [](const v1::PeerStatus& peer) { return Known(peer.up_cap_bytes_per_second()); }},
    {"atoll_peer_down_cap_bytes_per_second", kGauge, "What its owner lets it receive",
     [](const v1::PeerStatus& peer) { return Known(peer.down_cap_bytes_per_second()); }},
    {"atoll_peer_updates_refused_total", kCounter, "Chunks and updates of it that were refused",
     [](const v1::PeerStatus& peer) { return Whole(peer.updates_refused()); }},
    {"atoll_peer_updates_clipped_total", kCounter, "Updates of it that were scaled down",
     [](const v1::PeerStatus& peer) { return Whole(peer.updates_clipped()); }},
    {"atoll_peer_data_refused_total", kCounter,
     "Updates of it that were not finite, or losses far above the others'",
     [](const v1::PeerStatus& peer) { return Whole(peer.data_refused()); }},
    {"atoll_peer_audits_failed_total", kCounter, "Means that it made and that an audit found wrong",
     [](const v1::PeerStatus& peer) { return Whole(peer.audits_failed()); }},
    {"atoll_peer_suspicions_total", kCounter,
     "Audits that named it or another, with no way to decide",
     [](const v1::PeerStatus& peer) { return Whole(peer.suspicions()); }},
    {"atoll_peer_worker_failures", kGauge, "How often in a row its worker has ended",
     [](const v1::PeerStatus& peer) { return Whole(peer.worker_failures()); }},
};

constexpr absl::string_view kMemberStates[] = {"joining", "live", "suspect",
                                               "dead",    "left", "evicted"};

constexpr StateMetric<v1::PeerStatus> kPeerStates[] = {
    {"atoll_peer_state", "1 for the state that it is in, the label `state`", "state",
     [](const v1::PeerStatus& peer) { return OneOf(kMemberStates, peer.member().state()); }},
};

// What a peer told of itself.
constexpr Metric<v1::PeerStatus> kToldMetrics[] = {
    {"atoll_peer_version", kGauge, "Version of the model that it holds",
     [](const v1::PeerStatus& peer) { return Whole(peer.progress().version()); }},
    {"atoll_peer_tokens_per_second", kGauge, "Speed of its inner steps",
     [](const v1::PeerStatus& peer) { return Known(peer.progress().tokens_per_second()); }},
    {"atoll_peer_train_seconds_total", kCounter, "Its inner steps, since its daemon began",
     [](const v1::PeerStatus& peer) {
       return std::optional<double>(peer.progress().train_seconds());
     }},
    {"atoll_peer_exchange_sent_bytes_total", kCounter,
     "Bytes that it sent in exchanges, since its daemon began",
     [](const v1::PeerStatus& peer) { return Whole(peer.progress().exchange_bytes_sent()); }},
    {"atoll_peer_exchange_received_bytes_total", kCounter,
     "Bytes that it received in exchanges, since its daemon began",
     [](const v1::PeerStatus& peer) { return Whole(peer.progress().exchange_bytes_received()); }},
    {"atoll_peer_resident_bytes", kGauge, "Memory of its daemon",
     [](const v1::PeerStatus& peer) { return Known(peer.progress().resident_bytes()); }},
    {"atoll_peer_disk_free_bytes", kGauge, "Left on the disk of its replica",
     [](const v1::PeerStatus& peer) { return Known(peer.progress().disk_free_bytes()); }},
    {"atoll_peer_memory_available_bytes", kGauge, "Memory that its machine has left",
     [](const v1::PeerStatus& peer) { return Known(peer.progress().memory_available_bytes()); }},
    {"atoll_peer_clock_offset_seconds", kGauge, "Its clock minus the coordinator's",
     [](const v1::PeerStatus& peer) { return Known(peer.clock_offset_seconds()); }},
    {"atoll_peer_held_back", kGauge, "1 while it does not train by its owner's will",
     [](const v1::PeerStatus& peer) { return Whole(peer.progress().held_back().empty() ? 0 : 1); }},
};

constexpr StateMetric<v1::PeerStatus> kToldStates[] = {
    {"atoll_peer_phase", "1 for what it does, the label `phase`", "phase",
     [](const v1::PeerStatus& peer) { return PhaseOf(peer.progress()); }},
};

// What a daemon knows of itself.
constexpr Metric<DaemonFigures> kDaemonMetrics[] = {
    {"atoll_daemon_connected", kGauge, "1 while it has a session with the coordinator",
     [](const DaemonFigures& daemon) { return Whole(daemon.connected ? 1 : 0); }},
    {"atoll_daemon_version", kGauge, "Version of the model that it holds",
     [](const DaemonFigures& daemon) { return Whole(daemon.progress.version()); }},
    {"atoll_daemon_step", kGauge, "Inner step of the round",
     [](const DaemonFigures& daemon) { return Whole(daemon.progress.step()); }},
    {"atoll_daemon_steps", kGauge, "Inner steps that the round has",
     [](const DaemonFigures& daemon) { return Whole(daemon.progress.steps()); }},
    {"atoll_daemon_loss", kGauge, "Training loss of recent inner steps",
     [](const DaemonFigures& daemon) { return Known(daemon.progress.loss()); }},
    {"atoll_daemon_tokens_total", kCounter, "Tokens that it has trained on",
     [](const DaemonFigures& daemon) { return Whole(daemon.tokens); }},
    {"atoll_daemon_tokens_per_second", kGauge, "Speed of its inner steps",
     [](const DaemonFigures& daemon) { return Known(daemon.progress.tokens_per_second()); }},
    {"atoll_daemon_train_seconds_total", kCounter, "Its inner steps",
     [](const DaemonFigures& daemon) {
       return std::optional<double>(daemon.progress.train_seconds());
     }},
    {"atoll_daemon_exchange_sent_bytes_total", kCounter, "Bytes that it sent in exchanges",
     [](const DaemonFigures& daemon) { return Whole(daemon.progress.exchange_bytes_sent()); }},
    {"atoll_daemon_exchange_received_bytes_total", kCounter, "Bytes that it received in exchanges",
     [](const DaemonFigures& daemon) { return Whole(daemon.progress.exchange_bytes_received()); }},
    {"atoll_daemon_worker_restarts_total", kCounter, "How often its worker was started again",
     [](const DaemonFigures& daemon) { return Whole(daemon.worker_restarts); }},
};

constexpr StateMetric<DaemonFigures> kDaemonStates[] = {
    {"atoll_daemon_phase", "1 for what it does, the label `phase`", "phase",
     [](const DaemonFigures& daemon) { return PhaseOf(daemon.progress); }},
};

constexpr char kHeldBack[] = "atoll_daemon_held_back";
constexpr char kHeldBackHelp[] =
    "1 while it does not train by its owner's will: one series for each `reason`";

constexpr Metric<ProcessFigures> kProcessMetrics[] = {
    {"process_resident_memory_bytes", kGauge, "Memory of this process",
     [](const ProcessFigures& process) { return Known(process.resident_bytes); }},
    {"process_virtual_memory_bytes", kGauge, "Its address space",
     [](const ProcessFigures& process) { return Known(process.virtual_bytes); }},
    {"process_cpu_seconds_total", kCounter, "Processor time of all its threads",
     [](const ProcessFigures& process) { return std::optional<double>(process.cpu_seconds); }},
    {"process_start_time_seconds", kGauge, "When it began, Unix time",
     [](const ProcessFigures& process) { return Known(process.started_unix_seconds); }},
    {"process_open_fds", kGauge, "Files and connections that it has open",
     [](const ProcessFigures& process) { return Known(process.open_descriptors); }},
    {"process_max_fds", kGauge, "How many it may have open",
     [](const ProcessFigures& process) { return Known(process.most_descriptors); }},
    {"atoll_process_disk_free_bytes", kGauge, "Left on the disk of its folder",
     [](const ProcessFigures& process) { return Known(process.disk_free_bytes); }},
    {"atoll_process_memory_available_bytes", kGauge,
     "Memory that its machine or container has left",
     [](const ProcessFigures& process) { return Known(process.memory_available_bytes); }},
    {"atoll_process_loop_late_seconds_total", kCounter,
     "How late its loop was, looked at once a second",
     [](const ProcessFigures& process) { return std::optional<double>(process.late_seconds); }},
};

constexpr char kBuildInfo[] = "atoll_build_info";
constexpr char kBuildInfoHelp[] = "Always 1; the label `version` is the software's";

// By the words of who holds it back; the first that fits.
constexpr struct {
  const char* words;
  const char* reason;
} kReasons[] = {
    {"paused", "order"},    {"finish", "order"},    {"battery", "battery"},
    {"used up", "network"}, {"network", "network"}, {"hours", "hours"},
    {"keyboard", "in_use"}, {"hotter", "heat"},     {"other programs", "others"},
    {"memory", "memory"},   {"disk", "disk"},
};
constexpr const char* kReasonNames[] = {"order",  "hours",  "battery", "in_use",  "heat",
                                        "others", "memory", "disk",    "network", "other"};

prometheus::MetricFamily Family(const char* name, const char* help, MetricType type) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void AddSample(double value, Labels labels, prometheus::MetricFamily* family) {
  prometheus::ClientMetric sample;
  sample.label = std::move(labels);
  (family->type == kCounter ? sample.counter.value : sample.gauge.value) = value;
  family->metric.push_back(std::move(sample));
}

void AddFamily(prometheus::MetricFamily family, Families* families) {
  if (!family.metric.empty()) families->push_back(std::move(family));
}

// What there is of one kind, each with its labels.
template <typename Of>
using Subjects = std::vector<std::pair<const Of*, Labels>>;

template <typename Of>
void AddMetrics(absl::Span<const Metric<Of>> metrics, const Subjects<Of>& subjects,
                Families* families) {
  for (const Metric<Of>& metric : metrics) {
    prometheus::MetricFamily family = Family(metric.name, metric.help, metric.type);
    for (const auto& [of, labels] : subjects) {
      const std::optional<double> value = metric.value(*of);
      if (value.has_value()) AddSample(*value, labels, &family);
    }
    AddFamily(std::move(family), families);
  }
}

template <typename Of>
void AddStates(absl::Span<const StateMetric<Of>> metrics, const Subjects<Of>& subjects,
               Families* families) {
  for (const StateMetric<Of>& metric : metrics) {
    prometheus::MetricFamily family = Family(metric.name, metric.help, kGauge);
    for (const auto& [of, labels] : subjects) {
      Labels with = labels;
      with.push_back({metric.label, std::string(metric.state(*of))});
      AddSample(1, std::move(with), &family);
    }
    AddFamily(std::move(family), families);
  }
}

template <typename Of>
void AddNames(absl::Span<const Metric<Of>> metrics, std::vector<MetricName>* names) {
  for (const Metric<Of>& metric : metrics) {
    names->push_back({metric.name, metric.type == kCounter ? "counter" : "gauge", metric.help});
  }
}

template <typename Of>
void AddNames(absl::Span<const StateMetric<Of>> metrics, std::vector<MetricName>* names) {
  for (const StateMetric<Of>& metric : metrics) {
    names->push_back({metric.name, "gauge", metric.help});
  }
}

std::string TextOf(const Families& families) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

}  // namespace

std::vector<MetricName> RunMetricNames() {
  std::vector<MetricName> names;
  AddNames(absl::MakeConstSpan(kRunMetrics), &names);
  AddNames(absl::MakeConstSpan(kRunStates), &names);
  AddNames(absl::MakeConstSpan(kLinkMetrics), &names);
  AddNames(absl::MakeConstSpan(kPeerMetrics), &names);
  AddNames(absl::MakeConstSpan(kPeerStates), &names);
  AddNames(absl::MakeConstSpan(kToldMetrics), &names);
  AddNames(absl::MakeConstSpan(kToldStates), &names);
  return names;
}

std::vector<MetricName> DaemonMetricNames() {
  std::vector<MetricName> names;
  AddNames(absl::MakeConstSpan(kDaemonMetrics), &names);
  AddNames(absl::MakeConstSpan(kDaemonStates), &names);
  names.push_back({kHeldBack, "gauge", kHeldBackHelp});
  return names;
}

std::vector<MetricName> ProcessMetricNames() {
  std::vector<MetricName> names;
  AddNames(absl::MakeConstSpan(kProcessMetrics), &names);
  names.push_back({kBuildInfo, "gauge", kBuildInfoHelp});
  return names;
}

std::string Exposition(const v1::RunStatus& status) {
  const std::string& run = status.spec().run_id();
  Subjects<v1::LinkStatus> links;
  for (const v1::LinkStatus& link : status.links()) {
    links.push_back({&link, {{"run", run}, {"from", link.from()}, {"to", link.to()}}});
  }
  Subjects<v1::PeerStatus> peers;
  Subjects<v1::PeerStatus> heard_of;
  for (const v1::PeerStatus& peer : status.peers()) {
    const Labels labels = {{"run", run},
                           {"peer", peer.member().peer()},
                           {"region", peer.member().region()},
                           {"role", peer.role()}};
    peers.push_back({&peer, labels});
    if (IsHeardOf(peer)) heard_of.push_back({&peer, labels});
  }
  Families families;
  AddMetrics(absl::MakeConstSpan(kRunMetrics), {{&status, {{"run", run}}}}, &families);
  AddStates(absl::MakeConstSpan(kRunStates), {{&status, {{"run", run}}}}, &families);
  AddMetrics(absl::MakeConstSpan(kLinkMetrics), links, &families);
  AddMetrics(absl::MakeConstSpan(kPeerMetrics), peers, &families);
  AddStates(absl::MakeConstSpan(kPeerStates), peers, &families);
  AddMetrics(absl::MakeConstSpan(kToldMetrics), heard_of, &families);
  AddStates(absl::MakeConstSpan(kToldStates), heard_of, &families);
  return TextOf(families);
}

std::string DaemonExposition(const DaemonFigures& figures) {
  const Labels labels = {{"run", figures.run},
                         {"peer", figures.peer},
                         {"region", figures.region},
                         {"role", figures.role}};
  Families families;
  AddMetrics(absl::MakeConstSpan(kDaemonMetrics), {{&figures, labels}}, &families);
  AddStates(absl::MakeConstSpan(kDaemonStates), {{&figures, labels}}, &families);
  prometheus::MetricFamily held_back = Family(kHeldBack, kHeldBackHelp, kGauge);
  const char* const present = HeldBackReason(figures.progress.held_back());
  for (const char* const reason : kReasonNames) {
    Labels with = labels;
    with.push_back({"reason", reason});
    const bool holds = present != nullptr && absl::string_view(present) == reason;
    AddSample(holds ? 1 : 0, std::move(with), &held_back);
  }
  AddFamily(std::move(held_back), &families);
  return TextOf(families);
}

std::string ProcessExposition(const ProcessFigures& figures) {
  Families families;
  AddMetrics(absl::MakeConstSpan(kProcessMetrics), {{&figures, {}}}, &families);
  prometheus::MetricFamily info = Family(kBuildInfo, kBuildInfoHelp, kGauge);
  AddSample(1, {{"version", ATOLL_VERSION}}, &info);
  AddFamily(std::move(info), &families);
  return TextOf(families);
}

const char* HeldBackReason(absl::string_view held_back) {
  if (held_back.empty()) return nullptr;
  const std::string told = absl::AsciiStrToLower(held_back);
  for (const auto& [words, reason] : kReasons) {
    if (absl::StrContains(told, words)) return reason;
  }
  return "other";
}

}  // namespace atolld
