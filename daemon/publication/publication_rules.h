// PublicationRules: what a published run reveals of its parties' data, and what the publisher must
// say yes to first. docs/privacy.md gives the reasons. Pure. May be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/publication/site_writer.h"

namespace atolld {

struct PublicationRules {
  std::vector<std::string> notes;  // what the site will reveal
  // Not empty if the publisher has to agree (--yes): why.
  std::string consent;
  // An error if the site must not be written at all.
  absl::Status refusal;
};

// `parameters` is false for a site without states and payloads.
PublicationRules RulesOf(const SitePlan& plan, bool parameters);

}  // namespace atolld
