// What peers of earlier releases understand, by the release that their Hello names.
//
// Law: a coordinator speaks to each peer so that its release understands it, back to the first one
// whose run it can lead (docs/protocol.md, "Releases beside each other"). A peer that names no
// release, or one of a form that is none of ours, is taken for one of today. Pure functions.
#pragma once

#include <optional>
#include <tuple>

#include "absl/strings/string_view.h"

namespace atolld {

struct Release {
  int major = 0;
  int minor = 0;
  int patch = 0;
  bool operator<(const Release& other) const {
    return std::tie(major, minor, patch) < std::tie(other.major, other.minor, other.patch);
  }
};

// Of "0.2.0", or of "0.2.0-rc1" and the like; nothing: it is no such text.
std::optional<Release> ParseRelease(absl::string_view software);

// The roster as changes (RosterDelta) and brief plans: from 0.2.0 on. Others are told the roster
// whole at each change, and every plan whole.
bool FollowsChanges(absl::string_view software);

// RunSpec.mode: from 0.2.0 on. Others would pass it over and train as in mode "sync".
bool KnowsModes(absl::string_view software);

}  // namespace atolld
