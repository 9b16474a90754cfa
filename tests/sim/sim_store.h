// SimStore: the coordinator's Store on a simulated disk of transactions.
//
// Each Apply appends one record to a file of the process's own disk and syncs it; the transaction
// is durable when its record is. Therefore a crash before, at or after that instant, or a full,
// slow or broken disk, has the same effect as it would with a database. The records' contents stay
// in memory, in `Disk`, which remains when the process is restarted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/coordinator/store.h"
#include "daemon/env/env.h"

namespace atolld {

class SimStore final : public Store {
 public:
  struct Disk {
    std::vector<RunUpdate> journal;  // the transactions by number; those without a record on the
                                     // disk are lost
    std::shared_ptr<MemoryStore::Disk> state = std::make_shared<MemoryStore::Disk>();
    // Called once for each transaction, in order: when Apply returns, or when a later life finds
    // it.
    std::function<void(const RunUpdate&)> on_durable;
    size_t told = 0;
  };

  // `dir` is created if it is missing.
  SimStore(Files& files, std::string dir, std::shared_ptr<Disk> disk);

  // Keeps only the first `transactions`, as restoring a backup does. No store may be open.
  static absl::Status Restore(Files& files, const std::string& dir, size_t transactions,
                              Disk& disk);

  absl::StatusOr<StoredRun> Load() override;
  absl::Status Apply(const RunUpdate& update) override;
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first, uint32_t limit) override;
  std::string where() const override { return path_; }

  // Keeps only the first `count` transactions, as restoring a copy would.
  absl::Status CutTo(size_t count);

 private:
  absl::Status Append();
  void Tell();

  Files& files_;
  const std::string dir_;
  const std::string path_;
  const std::shared_ptr<Disk> disk_;
};

}  // namespace atolld
