#include "tests/sim/sim_store.h"

#include <algorithm>
#include <utility>

#include "compression/base/check.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// A record is as long as a small transaction: a crash may tear it.
constexpr size_t kRecordBytes = 64;

constexpr char kJournal[] = "/journal";

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

}  // namespace

SimStore::SimStore(Files& files, std::string dir, std::shared_ptr<Disk> disk)
    : files_(files), dir_(std::move(dir)), path_(dir_ + kJournal), disk_(std::move(disk)) {}

absl::Status SimStore::Restore(Files& files, const std::string& dir, size_t transactions,
                               Disk& disk) {
  const std::string path = dir + kJournal;
  CHECK(transactions <= disk.journal.size());
  RETURN_IF_ERROR(files.Truncate(path, transactions * kRecordBytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.OpenToAppend(path));
  RETURN_IF_ERROR(file->Sync());
  disk.journal.resize(transactions);
  disk.told = std::min(disk.told, transactions);
  disk.state->run = StoredRun();
  MemoryStore memory(disk.state);
  for (const RunUpdate& update : disk.journal) RETURN_IF_ERROR(memory.Apply(update));
  return absl::OkStatus();
}

absl::StatusOr<StoredRun> SimStore::Load() {
  RETURN_IF_ERROR(files_.MakeDirectories(dir_));
  size_t durable = 0;
  if (files_.Exists(path_)) {
    ASSIGN_OR_RETURN(const std::string records, ReadFile(files_, path_, kMostBytes));
    durable = records.size() / kRecordBytes;
    if (records.size() % kRecordBytes != 0) {
      RETURN_IF_ERROR(files_.Truncate(path_, durable * kRecordBytes));
    }
  }
  CHECK(durable <= disk_->journal.size());
  disk_->journal.resize(durable);
  disk_->state->run = StoredRun();
  MemoryStore memory(disk_->state);
  for (const RunUpdate& update : disk_->journal) RETURN_IF_ERROR(memory.Apply(update));
  Tell();
  return memory.Load();
}

absl::Status SimStore::CutTo(size_t count) {
  CHECK(count <= disk_->journal.size());
  RETURN_IF_ERROR(files_.Truncate(path_, count * kRecordBytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_.OpenToAppend(path_));
  RETURN_IF_ERROR(file->Sync());
  disk_->told = std::min(disk_->told, count);
  return Load().status();
}

void SimStore::Tell() {
  for (; disk_->told < disk_->journal.size(); ++disk_->told) {
    if (disk_->on_durable) disk_->on_durable(disk_->journal[disk_->told]);
  }
}

absl::Status SimStore::Append() {
  const bool fresh = !files_.Exists(path_);
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_.OpenToAppend(path_));
  RETURN_IF_ERROR(file->Append(std::vector<uint8_t>(kRecordBytes, 1)));
  RETURN_IF_ERROR(file->Sync());
  return fresh ? files_.SyncDirectory(dir_) : absl::OkStatus();
}

absl::Status SimStore::Apply(const RunUpdate& update) {
  const size_t before = disk_->journal.size();
  disk_->journal.push_back(update);
  const absl::Status appended = Append();
  if (!appended.ok()) {
    // A dying process leaves both to the next Load: the record may have become durable.
    if (absl::IsUnavailable(appended)) return appended;
    disk_->journal.pop_back();
    RETURN_IF_ERROR(files_.Truncate(path_, before * kRecordBytes));
    return appended;
  }
  RETURN_IF_ERROR(MemoryStore(disk_->state).Apply(update));
  Tell();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::EntryHeader>> SimStore::ReadHeaders(uint64_t first, uint32_t limit) {
  return MemoryStore(disk_->state).ReadHeaders(first, limit);
}

}  // namespace atolld
