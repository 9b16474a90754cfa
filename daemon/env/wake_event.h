// A wake event: a descriptor by which one thread wakes another that waits in poll().
//
// It is readable from the first SetWakeEvent on until ClearWakeEvent. The functions may be called
// from any thread, and do not block.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/env/posix_files.h"

namespace atolld {

// Fails with RESOURCE_EXHAUSTED if no descriptor is left.
absl::StatusOr<Descriptor> MakeWakeEvent();

void SetWakeEvent(const Descriptor& event);
void ClearWakeEvent(const Descriptor& event);

}  // namespace atolld
