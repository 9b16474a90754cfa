// What a RoundRunner remembers of keeping its residual on disk. Loop thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

struct ResidualKeeping {
  std::string dir;       // beside the replica; empty: it is not kept
  uint64_t version = 0;  // of the header that settled the residual
  bool loaded = false;   // it is still the one that a former life left
  uint64_t saved = 0;    // the version that is on the disk
  bool saving = false;
  absl::Time may_save = absl::InfinitePast();
  std::vector<Task> waiting;  // for it to be saved
};

}  // namespace atolld
