// How a run stands, as Prometheus reads it (text format 0.0.4): base units, `_total` for what only
// grows, the labels run, peer, region and role.
//
// docs/metrics.md lists the names. Pure, any thread.
#pragma once

#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

// One that Exposition can print, for docs/metrics.md.
struct MetricName {
  std::string name;
  std::string type;  // "gauge", "counter"
  std::string help;
};
std::vector<MetricName> MetricNames();

// `status`: as ShowRun gives it; of its rounds and evaluations the newest count. A figure that is
// not known yet is left out.
std::string Exposition(const v1::RunStatus& status);

}  // namespace atolld
