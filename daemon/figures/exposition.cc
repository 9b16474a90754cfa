#include "daemon/figures/exposition.h"

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
#include "daemon/figures/figures.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;
using Families = std::vector<prometheus::MetricFamily>;
using prometheus::MetricType;

constexpr MetricType kGauge = MetricType::Gauge;
constexpr MetricType kCounter = MetricType::Counter;

MetricType TypeOf(const char* metric) {
  return absl::EndsWith(metric, "_total") ? kCounter : kGauge;
}

// Returns nothing for 0, which means not measured.
template <typename T>
std::optional<double> Known(T value) {
  return value == 0 ? std::nullopt : std::optional<double>(static_cast<double>(value));
}

// One series of a process that a run's status does not report (figures.h has those that it
// reports).
template <typename Of>
struct Metric {
  const char* metric;  // if it ends in "_total", the figure only grows
  const char* help;
  std::optional<double> (*value)(const Of&);
};

// The present one of a few states: one series, of value 1, whose label `label` names the state.
template <typename Of>
struct StateMetric {
  const char* name;
  const char* help;
  const char* label;
  absl::string_view (*state)(const Of&);
};

// Returns "other" for an unknown word, because a peer may send any.
template <size_t n>
absl::string_view OneOf(const absl::string_view (&known)[n], absl::string_view told) {
  return std::find(std::begin(known), std::end(known), told) == std::end(known) ? "other" : told;
}

constexpr absl::string_view kPeerPhases[] = {"starting", "syncing",    "training",   "waiting",
                                             "masking",  "exchanging", "evaluating", "stopped"};

absl::string_view PhaseOf(const v1::PeerProgress& progress) {
  return OneOf(kPeerPhases, progress.phase());
}

bool IsHeardOf(const v1::PeerStatus& peer) {
  const std::string& state = peer.member().state();
  return state == "live" || state == "joining" || state == "suspect";
}

constexpr StateMetric<v1::RunStatus> kRunStates[] = {
    {"atoll_run_phase", "1 for the phase that it is in, the label `phase`", "phase",
     [](const v1::RunStatus& run) -> absl::string_view { return run.phase(); }},
};

constexpr absl::string_view kMemberStates[] = {"joining", "live", "suspect",
                                               "dead",    "left", "evicted"};

constexpr StateMetric<v1::PeerStatus> kPeerStates[] = {
    {"atoll_peer_state", "1 for the state that it is in, the label `state`", "state",
     [](const v1::PeerStatus& peer) { return OneOf(kMemberStates, peer.member().state()); }},
};

constexpr StateMetric<v1::PeerStatus> kToldStates[] = {
    {"atoll_peer_phase", "1 for what it does, the label `phase`", "phase",
     [](const v1::PeerStatus& peer) { return PhaseOf(peer.progress()); }},
};

// What a daemon knows beside the figures that it reports to the coordinator (ToldFigures).
constexpr Metric<DaemonFigures> kDaemonMetrics[] = {
    {"atoll_daemon_connected", "1 while it has a session with the coordinator",
     [](const DaemonFigures& daemon) -> std::optional<double> { return daemon.connected ? 1 : 0; }},
    {"atoll_daemon_tokens_total", "Tokens that it has trained on",
     [](const DaemonFigures& daemon) -> std::optional<double> { return daemon.tokens; }},
    {"atoll_daemon_worker_restarts_total", "How often its worker was started again",
     [](const DaemonFigures& daemon) -> std::optional<double> { return daemon.worker_restarts; }},
};

constexpr StateMetric<DaemonFigures> kDaemonStates[] = {
    {"atoll_daemon_phase", "1 for what it does, the label `phase`", "phase",
     [](const DaemonFigures& daemon) { return PhaseOf(daemon.progress); }},
};

constexpr auto kDaemonName = &Figure<v1::PeerStatus>::daemon_metric;

constexpr char kHeldBack[] = "atoll_daemon_held_back";
constexpr char kHeldBackHelp[] =
    "1 while it does not train by its owner's will: one series for each `reason`";

constexpr Metric<ProcessFigures> kProcessMetrics[] = {
    {"process_resident_memory_bytes", "Memory of this process",
     [](const ProcessFigures& process) { return Known(process.resident_bytes); }},
    {"process_virtual_memory_bytes", "Its address space",
     [](const ProcessFigures& process) { return Known(process.virtual_bytes); }},
    {"process_cpu_seconds_total", "Processor time of all its threads",
     [](const ProcessFigures& process) { return Known(process.cpu_seconds); }},
    {"process_start_time_seconds", "When it began, Unix time",
     [](const ProcessFigures& process) { return Known(process.started_unix_seconds); }},
    {"process_open_fds", "Files and connections that it has open",
     [](const ProcessFigures& process) { return Known(process.open_descriptors); }},
    {"process_max_fds", "How many it may have open",
     [](const ProcessFigures& process) { return Known(process.most_descriptors); }},
    {"atoll_process_disk_free_bytes", "Left on the disk of its folder",
     [](const ProcessFigures& process) { return Known(process.disk_free_bytes); }},
    {"atoll_process_memory_available_bytes", "Memory that its machine or container has left",
     [](const ProcessFigures& process) { return Known(process.memory_available_bytes); }},
    {"atoll_process_loop_late_seconds_total", "How late its loop was, looked at once a second",
     [](const ProcessFigures& process) { return std::optional<double>(process.late_seconds); }},
};

constexpr char kBuildInfo[] = "atoll_build_info";
constexpr char kBuildInfoHelp[] = "Always 1; the label `version` is the software's";

// The reasons by the words of the text that names what holds the peer back; the first match counts.
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

// The subjects of one kind, each with its labels.
template <typename Of>
using Subjects = std::vector<std::pair<const Of*, Labels>>;

// `Line` is a Metric or a Figure of the subjects; `name` is the member that has its name.
template <typename Line, typename Of>
void AddMetrics(absl::Span<const Line> lines, const Subjects<Of>& subjects, Families* families,
                const char* Line::*name = &Line::metric) {
  for (const Line& line : lines) {
    if (line.*name == nullptr) continue;
    prometheus::MetricFamily family = Family(line.*name, line.help, TypeOf(line.*name));
    for (const auto& [of, labels] : subjects) {
      const std::optional<double> value = line.value(*of);
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

template <typename Line>
void AddNames(absl::Span<const Line> lines, std::vector<MetricName>* names,
              const char* Line::*name = &Line::metric) {
  for (const Line& line : lines) {
    if (line.*name == nullptr) continue;
    const char* const type = TypeOf(line.*name) == kCounter ? "counter" : "gauge";
    names->push_back({line.*name, type, line.help});
  }
}

template <typename Of>
void AddStateNames(absl::Span<const StateMetric<Of>> metrics, std::vector<MetricName>* names) {
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
  AddNames(RunFigures(), &names);
  AddNames(RoundFigures(), &names);
  AddNames(EvaluationFigures(), &names);
  AddStateNames(absl::MakeConstSpan(kRunStates), &names);
  AddNames(LinkFigures(), &names);
  AddNames(PeerFigures(), &names);
  AddStateNames(absl::MakeConstSpan(kPeerStates), &names);
  AddNames(ToldFigures(), &names);
  AddStateNames(absl::MakeConstSpan(kToldStates), &names);
  return names;
}

std::vector<MetricName> DaemonMetricNames() {
  std::vector<MetricName> names;
  AddNames(absl::MakeConstSpan(kDaemonMetrics), &names);
  AddNames(ToldFigures(), &names, kDaemonName);
  AddStateNames(absl::MakeConstSpan(kDaemonStates), &names);
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
  Subjects<v1::RoundRecord> round;
  if (!status.rounds().empty()) round.push_back({&*status.rounds().rbegin(), {{"run", run}}});
  Subjects<v1::EvaluationRecord> evaluation;
  for (auto one = status.evaluations().rbegin(); one != status.evaluations().rend(); ++one) {
    if (!EvaluatedLoss(*one)) continue;
    evaluation.push_back({&*one, {{"run", run}}});
    break;
  }
  Families families;
  AddMetrics(RunFigures(), Subjects<v1::RunStatus>{{&status, {{"run", run}}}}, &families);
  AddMetrics(RoundFigures(), round, &families);
  AddMetrics(EvaluationFigures(), evaluation, &families);
  AddStates(absl::MakeConstSpan(kRunStates), {{&status, {{"run", run}}}}, &families);
  AddMetrics(LinkFigures(), links, &families);
  AddMetrics(PeerFigures(), peers, &families);
  AddStates(absl::MakeConstSpan(kPeerStates), peers, &families);
  AddMetrics(ToldFigures(), heard_of, &families);
  AddStates(absl::MakeConstSpan(kToldStates), heard_of, &families);
  return TextOf(families);
}

std::string DaemonExposition(const DaemonFigures& figures) {
  const Labels labels = {{"run", figures.run},
                         {"peer", figures.peer},
                         {"region", figures.region},
                         {"role", figures.role}};
  Families families;
  AddMetrics(absl::MakeConstSpan(kDaemonMetrics), Subjects<DaemonFigures>{{&figures, labels}},
             &families);
  v1::PeerStatus told;
  *told.mutable_progress() = figures.progress;
  AddMetrics(ToldFigures(), Subjects<v1::PeerStatus>{{&told, labels}}, &families, kDaemonName);
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
  AddMetrics(absl::MakeConstSpan(kProcessMetrics), Subjects<ProcessFigures>{{&figures, {}}},
             &families);
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
