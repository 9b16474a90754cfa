// ShownUpdates: counts how many of this peer's updates to a version may have been seen in an
// unmasked sum. The count is kept in the peer's folder.
//
// The difference between two sums shows the updates that are in only one of them, so no update may
// be in two sums. MaskLink keeps an update out of a second sum, but training again on the same data
// would give the same update. So the worker is told how many updates to the version were shown
// before (TrainSteps.again), and uses other data each time.
//
// Law: a count is on the disk before any other process learns that the update is masked, so no
// later process of this peer shows the same update. The file DIR/mask_shown has the version, a
// space, and the count. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

class ShownUpdates {
 public:
  // `dir` is the folder of the replica.
  ShownUpdates(Env env, const std::string& dir);

  // Reads the file, if there is one. Fails with DATA_LOSS if it is damaged. This call blocks and is
  // made before the loop runs.
  absl::Status Load();

  // Returns the number of updates to this version that may have been shown.
  uint32_t CountOf(uint64_t version) const;
  // Counts one more update to this version. Calls `done` with OK once the count is on the disk.
  // After an error the update must not be shown.
  void Add(uint64_t version, std::function<void(absl::Status)> done);

 private:
  const Env env_;
  const std::string path_;
  uint64_t version_ = 0;
  uint32_t count_ = 0;
  SerialQueue queue_;
  CallbackGuard guard_;
};

}  // namespace atolld
