#include "daemon/env/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace atolld {

absl::StatusOr<Descriptor> MakeWakeEvent() {
  Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.get() < 0) return absl::ResourceExhaustedError("no descriptor is left");
  return event;
}

void SetWakeEvent(const Descriptor& event) {
  const uint64_t one = 1;
  // It fails only if the counter is full, and then the event is set.
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof one);
}

void ClearWakeEvent(const Descriptor& event) {
  uint64_t times = 0;
  [[maybe_unused]] const ssize_t read_bytes = read(event.get(), &times, sizeof times);
}

}  // namespace atolld
