// A simulated disk: what was synced survives a crash, what was not is lost.
//
// A file's bytes are durable after WritableFile::Sync; its name (creation, rename, removal) after
// SyncDirectory of its directory. Directories themselves are durable at once. A disk outlives the
// lives of its process; handles of a former life fail with UNAVAILABLE.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/env.h"

namespace atolld {

class SimDisk {
 public:
  // What a crash leaves of that which was not durable.
  enum class Crash { kLoseUnsynced, kKeepUnsynced };
  void CrashNow(Crash crash);

  void Wipe();                                             // an empty disk
  void SetCapacity(uint64_t bytes) { capacity_ = bytes; }  // more: RESOURCE_EXHAUSTED
  uint64_t used() const;
  uint64_t writes() const { return writes_; }  // changes of any kind so far

  // Flips one bit of a live and durable file; false if there is no such byte.
  bool FlipBit(const std::string& path, uint64_t offset, int bit);

 private:
  friend class SimFiles;
  friend class SimWritableFile;
  struct Inode {
    std::string bytes;
    std::string durable;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  uint64_t capacity_ = UINT64_MAX;
  uint64_t life_ = 0;
  uint64_t writes_ = 0;
  Names names_;
  Names durable_names_;
  std::set<std::string> directories_ = {"/"};
};

// One life's view of a disk.
class SimFiles final : public Files {
 public:
  explicit SimFiles(SimDisk& disk) : disk_(disk), life_(disk.life_) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
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
  absl::Status CheckLife(const std::string& path) const;
  absl::Status CheckParent(const std::string& path) const;

  SimDisk& disk_;
  const uint64_t life_;
};

}  // namespace atolld
