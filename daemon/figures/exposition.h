// Metrics for Prometheus (text format 0.0.4): the state of a run, the state of a peer's daemon, and
// the resources that either process uses. Units are base units, names of counters end in `_total`,
// and the labels are run, peer, region and role.
//
// A figure that is not known yet is left out. Free text of a peer never becomes a label; its name
// and its region do, and both are checked ids. docs/metrics.md lists the names of the metrics.
// Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/process_figures.h"

namespace atolld {

// The description of a metric, for docs/metrics.md.
struct MetricName {
  std::string name;
  std::string type;  // "gauge", "counter"
  std::string help;
};
std::vector<MetricName> RunMetricNames();      // the metrics of Exposition
std::vector<MetricName> DaemonMetricNames();   // the metrics of DaemonExposition
std::vector<MetricName> ProcessMetricNames();  // the metrics of ProcessExposition

// Returns the metrics of a run. `status` is the answer of ShowRun; its newest rounds and
// evaluations are used. The figures that a peer reports about itself are left out unless its state
// is live, joining or suspect.
std::string Exposition(const v1::RunStatus& status);

// The figures that a peer's daemon has about itself.
struct DaemonFigures {
  std::string run;  // empty until the daemon knows its run
  std::string peer;
  std::string region;
  std::string role;        // the role in its Hello
  bool connected = false;  // true if it is connected to the coordinator
  v1::PeerProgress progress;
  uint64_t tokens = 0;           // tokens of finished rounds of training since the daemon's start
  uint64_t worker_restarts = 0;  // since the daemon's start
};
std::string DaemonExposition(const DaemonFigures& figures);

// Returns the metrics that a coordinator and a peer's daemon both have.
std::string ProcessExposition(const ProcessFigures& figures);

// Returns the reason why the owner's limits keep a peer from training, as one of these words:
// "order", "hours", "battery", "in_use", "heat", "others", "memory", "disk", "network", "other".
// `held_back` is the text in PeerProgress; returns nullptr if it is empty.
const char* HeldBackReason(absl::string_view held_back);

}  // namespace atolld
