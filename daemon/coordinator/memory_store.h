// MemoryStore: a Store without a disk, for tests and simulations. What it holds outlives it, as a
// disk would.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/coordinator/store.h"

namespace atolld {

class MemoryStore final : public Store {
 public:
  struct Disk {
    StoredRun run;
    absl::Status fails;  // what Apply returns, if not OK
    uint64_t updates = 0;
  };

  explicit MemoryStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}

  absl::StatusOr<StoredRun> Load() override { return disk_->run; }
  absl::Status Apply(const RunUpdate& update) override;
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first, uint32_t limit) override;
  std::string where() const override { return "memory"; }

 private:
  const std::shared_ptr<Disk> disk_;
};

}  // namespace atolld
