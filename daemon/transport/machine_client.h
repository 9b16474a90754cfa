// What `atoll status`, `pause`, `finish`, `resume` and `limits` ask of the peer's daemon on this
// machine (machine.proto), over its Unix-domain socket. Blocking; any thread.
//
// UNAVAILABLE: no daemon answers there. Else what it says is wrong with the question, in one line
// for people.
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
  // `address`: "unix:/path". Each question gets `patience` for its answer.
  explicit MachineClient(std::string address, absl::Duration patience = absl::Seconds(10))
      : address_(std::move(address)), patience_(patience) {}

  absl::StatusOr<v1::MachineStatus> Show() const;
  absl::StatusOr<v1::MachineStatus> Pause(uint64_t seconds) const;  // 0: until Resume
  absl::StatusOr<v1::MachineStatus> FinishRound(uint64_t pause_seconds) const;
  absl::StatusOr<v1::MachineStatus> Resume() const;
  absl::StatusOr<v1::MachineStatus> SetLimits(const v1::SetLimitsRequest& request) const;

 private:
  const std::string address_;
  const absl::Duration patience_;
};

}  // namespace atolld
