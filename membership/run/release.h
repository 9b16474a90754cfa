// Decides which messages a peer understands from the release that its Hello names.
//
// Law: a coordinator sends each peer only messages that the peer's release understands, back to the
// first release that this coordinator supports (docs/protocol.md, "Releases beside each other"). A
// peer that names no release, or names one in an unknown form, is assumed to have the current
// release. Pure. May be called from any thread.
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

// Parses text such as "0.2.0" or "0.2.0-rc1"; returns nullopt for other text.
std::optional<Release> ParseRelease(absl::string_view software);

// Returns true if a peer of this release understands changes of the roster (RosterDelta) and brief
// plans. This is so from 0.2.0 on. Other peers are sent the whole roster at each change, and whole
// plans.
bool FollowsChanges(absl::string_view software);

// Returns true if a peer of this release knows RunSpec.mode. This is so from 0.2.0 on. Other peers
// would ignore it and train as in mode "sync".
bool KnowsModes(absl::string_view software);

}  // namespace atolld
