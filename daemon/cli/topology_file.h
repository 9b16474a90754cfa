// The topology file: regions, links and peers, the TOML format of the lab (tests/wan/README.md),
// read as a LinkModel.
//
// What the lab alone needs (seed, loss, queue) is checked and has no meaning here. One difference:
// a region may have more peers than the lab can start. Every error is one line: "FILE:LINE: what is
// wrong", with the nearest valid name for a misspelt one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/line_rate.h"
#include "membership/planning/link_model.h"

namespace atolld {

// INVALID_ARGUMENT: there is no such file, it is no TOML, or it means nothing.
absl::StatusOr<LinkModel> LoadTopology(const std::string& path);

// One region of equal peers, each with a line of that rate both ways; `rtt` between two of them.
LinkModel EqualPeers(uint32_t peers, double bytes_per_second, absl::Duration rtt);

// "20ms": us, ms, s.
absl::StatusOr<absl::Duration> ParseDelay(absl::string_view text);

}  // namespace atolld
