// TunDevice: a network interface whose other end is this process: what its machine sends is read
// here, what is written here arrives there.
//
// It is made in a network namespace and is gone when it is closed, with the process at the latest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

class TunDevice {
 public:
  // Makes the interface `name` in the namespace that lies at `namespace_path`, and leaves the
  // thread in that namespace; "-": in the one where it is. An interface of that name that is there
  // and is this user's is taken. The kernel may hand over many segments of a TCP stream as one
  // frame. NOT_FOUND: no such namespace; FAILED_PRECONDITION: no TUN here, or not permitted.
  static absl::StatusOr<TunDevice> Open(const std::string& namespace_path, const std::string& name);

  TunDevice(TunDevice&& other) noexcept;
  TunDevice& operator=(TunDevice&&) = delete;
  ~TunDevice();

  // The next frame, copied into `buffer` (kLargestFrame bytes are enough for any); its size, or 0
  // if there is none now.
  size_t Read(absl::Span<uint8_t> buffer);

  // The machine behind it may refuse a frame (the interface is down): then it is lost.
  void Write(absl::Span<const uint8_t> frame);

  int fd() const { return fd_; }

 private:
  explicit TunDevice(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace atolld
