#include "daemon/replica/transfer/answer_source.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/transfer/transfer.h"

namespace atolld {
namespace {

absl::Status CheckRun(const std::string& asked, const std::string& run_id) {
  if (asked == run_id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("asked for run ", asked, ", this is a replica of ", run_id));
}

class EntrySource final : public AnswerSource {
 public:
  EntrySource(Files& files, std::string dir, std::string run_id)
      : files_(files), dir_(std::move(dir)), run_id_(std::move(run_id)) {}

  absl::Status Begin(const Frame& request) override {
    v1::EntriesRequest asked;
    RETURN_IF_ERROR(Unpack(request, &asked));
    RETURN_IF_ERROR(CheckRun(asked.run_id(), run_id_));
    ASSIGN_OR_RETURN(header_, FindHeader(asked.version()));
    ASSIGN_OR_RETURN(file_, files_.OpenToRead(PayloadPath(dir_, asked.version())));
    offset_ = 0;
    header_only_ = asked.header_only();
    return absl::OkStatus();
  }

  bool complete() const override { return file_ == nullptr; }

  absl::StatusOr<Frame> NextFrame() override {
    v1::EntryBlock block;
    if (header_only_) {
      *block.mutable_header() = header_;
      block.set_total(file_->size());
      file_ = nullptr;
      return Pack(block);
    }
    if (offset_ == 0) *block.mutable_header() = header_;
    block.set_offset(offset_);
    block.set_total(file_->size());
    std::vector<uint8_t> bytes(std::min<uint64_t>(kBlockBytes, file_->size() - offset_));
    RETURN_IF_ERROR(file_->ReadAt(offset_, absl::MakeSpan(bytes)));
    offset_ += bytes.size();
    if (offset_ == file_->size()) file_ = nullptr;
    return Pack(block, SharedBytes(std::move(bytes)));
  }

 private:
  absl::StatusOr<v1::EntryHeader> FindHeader(uint64_t version) {
    if (log_.has_value() && log_->Refresh().ok()) {
      absl::StatusOr<v1::EntryHeader> header = log_->ReadHeader(version);
      if (header.ok()) return header;
    }
    // The first request, or a log that was begun anew since: read it from its start.
    ASSIGN_OR_RETURN(log_, LogReader::Open(files_, dir_, 1));
    return log_->ReadHeader(version);
  }

  Files& files_;
  const std::string dir_;
  const std::string run_id_;
  std::optional<LogReader> log_;
  v1::EntryHeader header_;
  std::unique_ptr<ReadableFile> file_;  // of the entry being sent; null: none
  uint64_t offset_ = 0;
  bool header_only_ = false;
};

class SnapshotSource final : public AnswerSource {
 public:
  SnapshotSource(Files& files, std::string dir, std::string run_id)
      : files_(files), dir_(std::move(dir)), run_id_(std::move(run_id)) {}

  absl::Status Begin(const Frame& request) override {
    RETURN_IF_ERROR(Unpack(request, &asked_));
    RETURN_IF_ERROR(CheckRun(asked_.run_id(), run_id_));
    if (asked_.want_block()) {
      if (snapshot_ == nullptr) {
        return absl::FailedPreconditionError("a block was asked for before its snapshot");
      }
      if (asked_.block() < snapshot_->map().blocks()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("block ", asked_.block(), " of ",
                                                     snapshot_->map().blocks(), " was asked for"));
    }
    if (asked_.newest()) {
      ASSIGN_OR_RETURN(snapshot_, FindSnapshot(files_, dir_, std::numeric_limits<uint64_t>::max()));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(snapshot_, SnapshotReader::Open(files_, SnapshotPath(dir_, asked_.version())));
    return absl::OkStatus();
  }

  bool complete() const override { return true; }  // one frame a request

  absl::StatusOr<Frame> NextFrame() override {
    v1::SnapshotBlock answer;
    if (!asked_.want_block()) {
      *answer.mutable_info() = snapshot_->info();
      return Pack(answer);
    }
    answer.set_block(asked_.block());
    std::vector<uint8_t> bytes(snapshot_->map().Bytes(asked_.block()));
    RETURN_IF_ERROR(snapshot_->ReadBlock(asked_.block(), absl::MakeSpan(bytes)));
    return Pack(answer, SharedBytes(std::move(bytes)));
  }

 private:
  Files& files_;
  const std::string dir_;
  const std::string run_id_;
  v1::SnapshotRequest asked_;
  std::unique_ptr<SnapshotReader> snapshot_;
};

// For a method that no donor serves.
class NoSource final : public AnswerSource {
 public:
  absl::Status Begin(const Frame&) override {
    return absl::UnimplementedError("a donor serves FetchEntries and FetchSnapshot");
  }
  absl::StatusOr<Frame> NextFrame() override { return Frame(); }
  bool complete() const override { return true; }
};

}  // namespace

std::unique_ptr<AnswerSource> MakeAnswerSource(const std::string& method, Files& files,
                                               const std::string& dir, const std::string& run_id) {
  if (method == kFetchEntriesMethod) return std::make_unique<EntrySource>(files, dir, run_id);
  if (method == kFetchSnapshotMethod) return std::make_unique<SnapshotSource>(files, dir, run_id);
  return std::make_unique<NoSource>();
}

}  // namespace atolld
