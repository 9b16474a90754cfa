// One life's view of a simulated disk (sim_disk.h), as Files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/env/env.h"
#include "tests/sim/sim_disk.h"

namespace atolld {

std::string SimParentOf(const std::string& path);

class SimFiles final : public Files {
 public:
  explicit SimFiles(SimDisk& disk) : disk_(disk), life_(disk.life_) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  // The simulated machine has one user.
  absl::StatusOr<std::unique_ptr<WritableFile>> CreatePrivate(const std::string& path) override {
    return Create(path);
  }
  absl::StatusOr<bool> IsPrivate(const std::string& /*path*/) override { return true; }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Truncate(const std::string& path, uint64_t size) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& directory) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  bool Exists(const std::string& path) override;

 private:
  absl::Status CheckParent(const std::string& path) const;
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path, bool empty);

  SimDisk& disk_;
  const uint64_t life_;
};

}  // namespace atolld
