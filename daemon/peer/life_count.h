// LifeCount: numbers the processes (lives) of a peer, one after another. The count is kept in the
// peer's folder.
//
// A Hello can arrive long after the process that sent it has died. The coordinator distinguishes
// that Hello from one of the living process by the number of the life in it: a process replaces
// another process of the same peer only if its life is greater.
//
// Law: a life is on the disk before any other process learns it, so no later start in this folder
// has the same life. The first life in a new folder is the present time, so that it is greater than
// the lives of the folder that the new one replaces. A folder that was copied may have too small a
// count: the coordinator then reports this, and RaiseAbove is called. Used on the loop thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

class LifeCount {
 public:
  LifeCount(Env env, const std::string& dir);

  // Counts this start. This call blocks and is made before the loop runs. If it fails, the peer
  // does not start, since a peer with a full disk could hold no entry. Errors name the file.
  absl::Status Begin();

  uint64_t life() const { return life_; }

  // Called when another process of this peer has had the life `other`. Takes a greater life,
  // durably. Does nothing if this life is already greater, or if `other` is the largest number.
  void RaiseAbove(uint64_t other);

 private:
  Env env_;
  const std::string path_;
  SerialQueue queue_;
  uint64_t life_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
