// What Prometheus reads (text format 0.0.4): how a run stands, how a peer's daemon does, and what
// either process uses. Base units, `_total` for what only grows, the labels run, peer, region,
// role.
//
// A figure that is not known yet is left out. What a peer tells makes no label: nobody but the
// coordinator adds series. docs/metrics.md lists the names. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/process_figures.h"

namespace atolld {

// One that can be printed, for docs/metrics.md.
struct MetricName {
  std::string name;
  std::string type;  // "gauge", "counter"
  std::string help;
};
std::vector<MetricName> RunMetricNames();      // of Exposition
std::vector<MetricName> DaemonMetricNames();   // of DaemonExposition
std::vector<MetricName> ProcessMetricNames();  // of ProcessExposition

// `status`: as ShowRun gives it; of its rounds and evaluations the newest count. What a peer told
// of itself is left out once it is not heard of any more.
std::string Exposition(const v1::RunStatus& status);

// A peer's daemon, as it knows itself.
struct DaemonFigures {
  std::string run;  // empty: it has not been told of one yet
  std::string peer;
  std::string region;
  std::string role;        // as in Hello
  bool connected = false;  // to the coordinator
  v1::PeerProgress progress;
  uint64_t tokens = 0;           // of training that was finished, since the daemon's start
  uint64_t worker_restarts = 0;  // since the daemon's start
};
std::string DaemonExposition(const DaemonFigures& figures);

// The same for both kinds of process.
std::string ProcessExposition(const ProcessFigures& figures);

// Why a peer does not train by its owner's will, as one of a few words: "order", "hours",
// "battery", "in_use", "heat", "others", "memory", "disk", "network", "other". `held_back`: as in
// PeerProgress; empty: nullptr.
const char* HeldBackReason(absl::string_view held_back);

}  // namespace atolld
