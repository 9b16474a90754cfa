// ParameterMemory: the mapping that a daemon and its worker share, so that parameters never travel
// in a message.
//
// Slots of fp32: theta (the replica's parameters, written by the daemon alone), update (what the
// worker hands over), control (the common variate of a run with control variates, written as theta
// is) and guess (of a run in mode "eager": EagerGuess writes it before the worker is told to start
// from it). A slot that nobody writes takes no memory. The memory is an anonymous file: nothing is
// left behind when the processes die, and a worker opens it by path(). Constant after construction;
// who may touch which slot when is the law of worker.proto.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

class ParameterMemory {
 public:
  // RESOURCE_EXHAUSTED if the machine does not give that much memory.
  static absl::StatusOr<std::unique_ptr<ParameterMemory>> Create(uint64_t elements);
  ~ParameterMemory();
  ParameterMemory(const ParameterMemory&) = delete;
  ParameterMemory& operator=(const ParameterMemory&) = delete;

  uint64_t elements() const { return elements_; }
  absl::Span<float> theta() const;
  absl::Span<const float> update() const;
  absl::Span<float> writable_update() const;  // while no worker has been asked for one
  absl::Span<float> control() const;
  absl::Span<float> guess() const;

  // For MapMemory. Valid while this process lives, for processes of the same user.
  std::string path() const;
  uint64_t theta_offset() const { return 0; }
  uint64_t update_offset() const { return slot_bytes_; }
  uint64_t control_offset() const { return 2 * slot_bytes_; }
  uint64_t guess_offset() const { return 3 * slot_bytes_; }

 private:
  static constexpr uint64_t kSlots = 4;

  absl::Span<float> Slot(uint64_t slot) const;

  ParameterMemory(int file, void* base, uint64_t elements, uint64_t slot_bytes);

  const int file_;
  void* const base_;
  const uint64_t elements_;
  const uint64_t slot_bytes_;
};

}  // namespace atolld
