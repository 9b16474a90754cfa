// TunDevice: a network interface with this process at its other end. Frames that the machine sends
// are read here, and frames that are written here arrive at the machine.
//
// It is created in a network namespace, and disappears when it is closed, at the latest with the
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

class TunDevice {
 public:
  // Creates the interface `name` in the namespace at `namespace_path` and leaves the thread in that
  // namespace; "-" is the thread's present namespace. Reuses an existing interface of that name
  // that belongs to this user. The kernel may deliver many segments of a TCP stream as one frame.
  // Fails with NOT_FOUND if there is no such namespace, and with FAILED_PRECONDITION if TUN is not
  // available or not permitted.
  static absl::StatusOr<TunDevice> Open(const std::string& namespace_path, const std::string& name);

  TunDevice(TunDevice&& other) noexcept;
  TunDevice& operator=(TunDevice&&) = delete;
  ~TunDevice();

  // Copies the next frame into `buffer` (kLargestFrame bytes suffice for any frame) and returns its
  // size, or 0 if there is no frame now.
  size_t Read(absl::Span<uint8_t> buffer);

  // Sends a frame to the machine. If the interface is down, the machine refuses the frame, and it
  // is lost.
  void Write(absl::Span<const uint8_t> frame);

  int fd() const { return fd_; }

 private:
  explicit TunDevice(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace atolld
