// The memory that the worker shares with its daemon: the slots of worker.proto.
//
// Who may touch a slot is decided by the messages alone; this class only maps. One thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"

namespace atolld {

class Slots {
 public:
  // NOT_FOUND, UNAVAILABLE: the mapping failed. INVALID_ARGUMENT: `elements` differs from the
  // request, an offset is not aligned to a page, slots overlap or do not fit the file.
  static absl::StatusOr<std::unique_ptr<Slots>> Map(const v1::MapMemory& request,
                                                    uint64_t elements);
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  absl::Span<const float> theta() const { return theta_; }
  absl::Span<float> update() const { return update_; }

 private:
  Slots() = default;

  void* mapping_ = nullptr;
  size_t size_ = 0;
  absl::Span<const float> theta_;
  absl::Span<float> update_;
};

}  // namespace atolld
