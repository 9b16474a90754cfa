// ParameterMemory: the memory mapping that a daemon and its worker share, so that parameters are
// never sent in a message.
//
// It has slots of fp32 values: theta (the replica's parameters, which only the daemon writes),
// update (the update that the worker hands over), control (the common variate of a run with control
// variates, which only the daemon writes) and guess (in mode "eager", EagerGuess writes it before
// the worker is told to start from it). A slot that is never written takes no memory. The memory is
// a file without a name, in memory or on a disk (MemoryFile), so nothing remains when the processes
// die. A worker gets it when it is started, or opens path(). worker.proto says which process may
// read or write which slot at which time. NeedControl and NeedGuess must not run at the same time;
// everything else is constant after construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/env/memory_file.h"

namespace atolld {

class ParameterMemory {
 public:
  // `file` is the file that the worker has inherited; if it is null, a new file is made. Fails with
  // RESOURCE_EXHAUSTED if the machine does not give that much memory.
  static absl::StatusOr<std::unique_ptr<ParameterMemory>> Create(
      uint64_t elements, std::shared_ptr<MemoryFile> file = nullptr);
  ~ParameterMemory();
  ParameterMemory(const ParameterMemory&) = delete;
  ParameterMemory& operator=(const ParameterMemory&) = delete;

  uint64_t elements() const { return elements_; }
  absl::Span<float> theta() const;
  absl::Span<const float> update() const;
  // May be written only while no worker has been asked for an update.
  absl::Span<float> writable_update() const;
  absl::Span<float> control() const;
  absl::Span<float> guess() const;

  // Called before the slot is first written. (On a disk, theta and update have their room from the
  // start.) Fails with RESOURCE_EXHAUSTED if the disk has no room for the slot.
  absl::Status NeedControl() const { return Need(2); }
  absl::Status NeedGuess() const { return Need(3); }

  // Called when no slot is used for a while: slots on a disk are not resident in this process until
  // they are used again. No value changes.
  void Release() const;

  // The path for MapMemory, for a worker that has not inherited the memory. It is valid while this
  // process lives, for processes of the same user that have access to this process's files in
  // /proc.
  std::string path() const;
  uint64_t theta_offset() const { return 0; }
  uint64_t update_offset() const { return slot_bytes_; }
  uint64_t control_offset() const { return 2 * slot_bytes_; }
  uint64_t guess_offset() const { return 3 * slot_bytes_; }

 private:
  static constexpr uint64_t kSlots = 4;

  absl::Span<float> Slot(uint64_t slot) const;
  absl::Status Need(uint64_t slot) const;

  ParameterMemory(std::shared_ptr<MemoryFile> file, void* base, uint64_t elements,
                  uint64_t slot_bytes);

  const std::shared_ptr<MemoryFile> file_;
  void* const base_;
  const uint64_t elements_;
  const uint64_t slot_bytes_;
  mutable std::array<bool, kSlots> reserved_ = {true, true};  // the slots that have their room
};

}  // namespace atolld
