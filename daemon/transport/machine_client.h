// The client with which `atoll status`, `pause`, `finish`, `resume` and `limits` call the peer's
// daemon on this machine (machine.proto), over its Unix-domain socket. Its calls block. May be
// called from any thread.
//
// A call fails with UNAVAILABLE if no daemon answers at the socket, and otherwise with the daemon's
// own error. The message is one line for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/machine.pb.h"

namespace atolld {

class MachineClient {
 public:
  // `address` is "unix:/path". Each call waits for its answer for at most `patience`.
  explicit MachineClient(std::string address, absl::Duration patience = absl::Seconds(10))
      : address_(std::move(address)), patience_(patience) {}

  absl::StatusOr<v1::MachineStatus> Show() const;
  // 0 means until Resume is called
  absl::StatusOr<v1::MachineStatus> Pause(uint64_t seconds) const;
  absl::StatusOr<v1::MachineStatus> FinishRound(uint64_t pause_seconds) const;
  absl::StatusOr<v1::MachineStatus> Resume() const;
  absl::StatusOr<v1::MachineStatus> SetLimits(const v1::SetLimitsRequest& request) const;

 private:
  const std::string address_;
  const absl::Duration patience_;
};

}  // namespace atolld
