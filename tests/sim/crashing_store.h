// CrashingStore: a Store whose process may be made to die at any of its transactions.
//
// A transaction is whole or not there: a process dies before it is durable or after it, never in
// its middle. Either way the caller gets UNAVAILABLE and is killed before it can act on it. Passes
// all else on to the store that it wraps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/coordinator/store.h"

namespace atolld {

class CrashingStore final : public Store {
 public:
  // Shared by the stores of all lives of one process.
  struct Plan {
    uint64_t applied = 0;       // transactions asked for so far
    uint64_t crash_at = 0;      // the transaction at which the process dies, from 1 on; 0: none
    bool durable = false;       // it dies after that one is durable
    std::function<void()> die;  // takes effect once the present event is over
    std::function<void()> on_applied;
  };

  CrashingStore(std::unique_ptr<Store> store, std::shared_ptr<Plan> plan)
      : store_(std::move(store)), plan_(std::move(plan)) {}

  absl::StatusOr<StoredRun> Load() override { return store_->Load(); }
  absl::Status Apply(const RunUpdate& update) override;
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first,
                                                           uint32_t limit) override {
    return store_->ReadHeaders(first, limit);
  }
  std::string where() const override { return store_->where(); }

 private:
  const std::unique_ptr<Store> store_;
  const std::shared_ptr<Plan> plan_;
};

}  // namespace atolld
