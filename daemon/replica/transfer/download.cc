#include "daemon/replica/transfer/download.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/state_digest.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

// Blocks that one job appends: long enough to be worth a job, short enough that others on the pool
// do not wait for a whole snapshot.
constexpr int kBlocksAJob = 32;

// Blocks after which the prefix is made durable: what a crash of the machine can cost.
constexpr int kBlocksASync = 64;

}  // namespace

Download::Download(Files& files, std::string dir, v1::Genesis genesis)
    : files_(files), dir_(std::move(dir)), genesis_(std::move(genesis)) {}

std::string Download::PartialPath() const {
  return absl::StrCat(FetchDirectory(dir_), "/snapshot");
}
std::string Download::FormerPath() const { return absl::StrCat(FetchDirectory(dir_), "/former"); }

absl::Status Download::Begin() {
  RETURN_IF_ERROR(CheckGenesis(genesis_));
  v1::Genesis known;
  const absl::Status status = ReadMessageFile(files_, GenesisPath(dir_), &known);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  if (status.ok() && GenesisDigest(known) != GenesisDigest(genesis_)) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir_, ": it holds a replica of run ", known.spec().run_id(), " with another genesis"));
  }
  RETURN_IF_ERROR(files_.MakeDirectories(FetchDirectory(dir_)));
  RETURN_IF_ERROR(files_.MakeDirectories(SnapshotsDirectory(dir_)));
  absl::StatusOr<std::unique_ptr<SnapshotWriter>> resumed =
      SnapshotWriter::Resume(files_, PartialPath());
  if (resumed.ok() && GenesisDigest((*resumed)->info().genesis()) == GenesisDigest(genesis_)) {
    writer_ = *std::move(resumed);
  } else if (!resumed.ok() && !absl::IsNotFound(resumed.status()) &&
             !absl::IsDataLoss(resumed.status())) {
    return resumed.status();
  }
  return absl::OkStatus();
}

absl::Status Download::Check(const v1::SnapshotInfo& info) const {
  if (GenesisDigest(info.genesis()) != GenesisDigest(genesis_)) {
    return absl::InvalidArgumentError("its snapshot has another genesis");
  }
  return CheckSnapshotInfo(info);
}

absl::Status Download::Start(const v1::SnapshotInfo& info) {
  Abandon();
  if (files_.Exists(PartialPath())) RETURN_IF_ERROR(files_.Rename(PartialPath(), FormerPath()));
  ASSIGN_OR_RETURN(writer_, SnapshotWriter::Create(files_, PartialPath(), info));
  return absl::OkStatus();
}

void Download::Abandon() {
  writer_ = nullptr;
  local_files_.clear();
  local_.clear();
  waiting_.clear();
}

std::vector<uint64_t> Download::FindLocal() {
  std::vector<std::string> paths;
  const absl::StatusOr<std::vector<std::string>> names = files_.List(SnapshotsDirectory(dir_));
  if (names.ok()) {
    for (auto it = names->rbegin(); it != names->rend(); ++it) {
      paths.push_back(absl::StrCat(SnapshotsDirectory(dir_), "/", *it));
    }
  }
  paths.push_back(FormerPath());
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<SnapshotReader>> reader =
        SnapshotReader::OpenPartial(files_, path);
    if (!reader.ok()) continue;  // whatever it is, it is no place to look for blocks
    const v1::SnapshotInfo& other = (*reader)->info();
    if (GenesisDigest(other.genesis()) != GenesisDigest(genesis_)) continue;
    bool any = false;
    for (uint64_t block = next_block(); block < map().blocks(); ++block) {
      const int buffer = map().Buffer(block);
      const int leaf = static_cast<int>(map().InBuffer(block));
      if (other.buffers(buffer).leaves(leaf) != info()->buffers(buffer).leaves(leaf)) continue;
      any |= local_.emplace(block, local_files_.size()).second;
    }
    if (any) local_files_.push_back(*std::move(reader));
  }
  std::vector<uint64_t> blocks;
  for (const auto& [block, file] : local_) blocks.push_back(block);
  return blocks;
}

absl::Status Download::Take(uint64_t block, const SharedBytes& bytes) {
  CHECK(writer_ != nullptr);
  if (block >= map().blocks()) return absl::DataLossError("there is no such block");
  RETURN_IF_ERROR(CheckBlock(*info(), map(), block, bytes.span()));
  if (block >= next_block()) waiting_.emplace(block, bytes);
  return absl::OkStatus();
}

absl::StatusOr<bool> Download::Append(std::vector<uint64_t>* lost) {
  for (int i = 0; i < kBlocksAJob && !complete(); ++i) {
    const uint64_t block = next_block();
    const auto here = waiting_.find(block);
    if (here != waiting_.end()) {
      RETURN_IF_ERROR(AppendNext(here->second.span()));
      waiting_.erase(here);
      continue;
    }
    const auto local = local_.find(block);
    if (local == local_.end()) return false;
    std::vector<uint8_t> bytes(map().Bytes(block));
    const absl::Status read = local_files_[local->second]->ReadBlock(block, absl::MakeSpan(bytes));
    local_.erase(local);
    if (!read.ok()) {
      lost->push_back(block);
      return false;
    }
    RETURN_IF_ERROR(AppendNext(bytes));
  }
  return !complete();
}

absl::Status Download::AppendNext(absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(writer_->AppendBlock(bytes));
  if (++unsynced_blocks_ < kBlocksASync) return absl::OkStatus();
  unsynced_blocks_ = 0;
  return writer_->Sync();
}

absl::Status Download::Finish() {
  RETURN_IF_ERROR(writer_->Finish(SnapshotPath(dir_, writer_->info().version())));
  writer_ = nullptr;
  local_files_.clear();
  RETURN_IF_ERROR(files_.Remove(FormerPath()));
  RETURN_IF_ERROR(files_.SyncDirectory(dir_));
  if (files_.Exists(GenesisPath(dir_))) return absl::OkStatus();
  return WriteMessageFile(files_, GenesisPath(dir_), genesis_);
}

uint64_t Download::bytes() const {
  const uint64_t full = next_block() / map().blocks_a_buffer();
  const uint64_t buffers = static_cast<uint64_t>(info()->buffers_size());
  return full * (map().total_bytes() / buffers) +
         (next_block() % map().blocks_a_buffer()) * kBlockBytes;
}

}  // namespace atolld
