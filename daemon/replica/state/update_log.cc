#include "daemon/replica/state/update_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"

namespace atolld {
namespace {

Digest DigestOf(const Record& record) { return Sha256(BytesOf(record.body)); }

}  // namespace

LogReader::LogReader(Files& files, const std::string& dir, uint64_t first_version)
    : files_(&files),
      dir_(dir),
      path_(HeadersPath(dir)),
      fallback_version_(first_version),
      first_version_(first_version) {}

absl::StatusOr<LogReader> LogReader::Open(Files& files, const std::string& dir,
                                          uint64_t first_version) {
  LogReader reader(files, dir, first_version);
  RETURN_IF_ERROR(reader.Refresh());
  return reader;
}

absl::StatusOr<v1::EntryHeader> LogReader::ParseHeader(const ReadableFile& file, uint64_t offset,
                                                       uint64_t version, uint64_t* end) const {
  const std::string context = absl::StrCat("entry ", version, ": ", path_);
  absl::StatusOr<Record> record = ReadRecord(file, offset);
  if (!record.ok()) return Annotate(record.status(), context);
  v1::EntryHeader header;
  *end = record->end;
  if (record->torn) return header;
  if (!header.ParseFromString(record->body)) {
    return absl::DataLossError(absl::StrCat(context, ": offset ", offset, ": not a header"));
  }
  return header;
}

absl::Status LogReader::Refresh() {
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = files_->OpenToRead(path_);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  RETURN_IF_ERROR(file.status());
  if (Replaced(**file)) {
    offsets_.clear();
    first_digest_.reset();
    first_version_ = fallback_version_;
    end_ = 0;
  }
  return Scan(**file);
}

// Returns true if the offsets do not belong to this file, even if it has grown.
bool LogReader::Replaced(const ReadableFile& file) const {
  if (offsets_.empty()) return false;
  if (file.size() < end_) return true;
  const absl::StatusOr<Record> first = ReadRecord(file, 0);
  // A first record that has rotted is a fault of this file, and is told by whoever reads it.
  return first.ok() && !first->torn && DigestOf(*first) != first_digest_;
}

// Finds the records after the last one that is known.
absl::Status LogReader::Scan(const ReadableFile& file) {
  torn_ = false;
  while (end_ < file.size()) {
    const uint64_t version = first_version_ + offsets_.size();
    uint64_t next = 0;
    ASSIGN_OR_RETURN(const v1::EntryHeader header, ParseHeader(file, end_, version, &next));
    if (next == end_) {
      torn_ = true;
      return absl::OkStatus();
    }
    if (offsets_.empty()) {
      first_version_ = header.version();
      ASSIGN_OR_RETURN(const Record first, ReadRecord(file, 0));
      first_digest_ = DigestOf(first);
    }
    if (header.version() == 0 || header.version() != first_version_ + offsets_.size()) {
      return absl::DataLossError(absl::StrCat("entry ", version, ": ", path_, ": offset ", end_,
                                              ": the header of version ", header.version(),
                                              " stands in its place"));
    }
    offsets_.push_back(end_);
    end_ = next;
  }
  return absl::OkStatus();
}

void LogReader::NoteAppended(uint64_t version, absl::string_view body) {
  if (offsets_.empty()) {
    first_version_ = version;
    first_digest_ = Sha256(BytesOf(body));
  }
  CHECK(version == first_version_ + offsets_.size());
  offsets_.push_back(end_);
  end_ += body.size() + kRecordOverhead;
}

uint64_t LogReader::BytesBefore(uint64_t version) const {
  CHECK(version >= first_version_ && version - first_version_ <= offsets_.size());
  const uint64_t index = version - first_version_;
  return index == offsets_.size() ? end_ : offsets_[index];
}

absl::StatusOr<v1::EntryHeader> LogReader::ReadAt(const ReadableFile& file,
                                                  uint64_t version) const {
  const uint64_t offset = offsets_[version - first_version_];
  const absl::Status changed = absl::DataLossError(
      absl::StrCat("entry ", version, ": ", path_, ": offset ", offset, ": the header is gone"));
  if (offset >= file.size()) return changed;
  uint64_t end = 0;
  ASSIGN_OR_RETURN(v1::EntryHeader header, ParseHeader(file, offset, version, &end));
  if (header.version() != version) return changed;
  return header;
}

absl::StatusOr<v1::EntryHeader> LogReader::ReadHeader(uint64_t version) const {
  if (version < first_version_ || version - first_version_ >= offsets_.size()) {
    return absl::NotFoundError(absl::StrCat("entry ", version, ": no header in ", path_));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_->OpenToRead(path_));
  absl::StatusOr<v1::EntryHeader> header = ReadAt(*file, version);
  if (header.ok() || !absl::IsDataLoss(header.status()) || !Replaced(*file)) return header;
  LogReader now(*files_, dir_, fallback_version_);
  RETURN_IF_ERROR(now.Scan(*file));
  if (now.empty() || version < now.first_version_ || version > now.last_version()) {
    return absl::NotFoundError(absl::StrCat("entry ", version, ": no header in ", path_));
  }
  return now.ReadAt(*file, version);
}

absl::StatusOr<SharedBytes> ReadPayload(Files& files, const std::string& dir, uint64_t version,
                                        uint64_t limit) {
  const std::string path = PayloadPath(dir, version);
  const std::string context = absl::StrCat("entry ", version, ": payload");
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.OpenToRead(path);
  if (!file.ok()) return Annotate(file.status(), context);
  if ((*file)->size() > limit) {
    return absl::DataLossError(absl::StrCat(context, " ", path, " has ", (*file)->size(),
                                            " bytes, at most ", limit, " are possible"));
  }
  std::vector<uint8_t> bytes((*file)->size());
  RETURN_IF_ERROR(Annotate((*file)->ReadAt(0, absl::MakeSpan(bytes)), context));
  return SharedBytes(std::move(bytes));
}

PayloadCheck::PayloadCheck(std::string context, std::string digest,
                           std::unique_ptr<ReadableFile> file)
    : context_(std::move(context)), digest_(std::move(digest)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<PayloadCheck>> PayloadCheck::Open(Files& files,
                                                                 const std::string& dir,
                                                                 const v1::EntryHeader& header) {
  const std::string path = PayloadPath(dir, header.version());
  std::string context = absl::StrCat("entry ", header.version(), ": payload ", path);
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.OpenToRead(path);
  if (!file.ok()) return Annotate(file.status(), context);
  return std::unique_ptr<PayloadCheck>(
      new PayloadCheck(std::move(context), header.payload_digest(), *std::move(file)));
}

absl::StatusOr<bool> PayloadCheck::Step() {
  std::vector<uint8_t> block(std::min<uint64_t>(kBlockBytes, file_->size() - offset_));
  if (!block.empty()) {
    RETURN_IF_ERROR(Annotate(file_->ReadAt(offset_, absl::MakeSpan(block)), context_));
    leaves_.push_back(Sha256(block));
    offset_ += block.size();
  }
  if (offset_ < file_->size()) return false;
  if (ToBytes(TreeRoot(file_->size(), leaves_)) == digest_) return true;
  return absl::DataLossError(absl::StrCat(context_, ": its digest differs from the header's"));
}

UpdateLog::UpdateLog(Files& files, std::string dir, LogReader reader, uint64_t last_version)
    : files_(files),
      dir_(std::move(dir)),
      reader_(std::move(reader)),
      last_version_(last_version) {}

absl::StatusOr<std::unique_ptr<UpdateLog>> UpdateLog::Open(Files& files, const std::string& dir,
                                                           uint64_t snapshot_version) {
  RETURN_IF_ERROR(files.MakeDirectories(LogDirectory(dir)));
  RETURN_IF_ERROR(RemoveTemporaries(files, LogDirectory(dir)));
  ASSIGN_OR_RETURN(LogReader reader, LogReader::Open(files, dir, snapshot_version + 1));
  const uint64_t last = reader.empty() ? snapshot_version : reader.last_version();
  std::unique_ptr<UpdateLog> log(new UpdateLog(files, dir, std::move(reader), last));
  RETURN_IF_ERROR(log->Repair(snapshot_version));
  return log;
}

absl::Status UpdateLog::Repair(uint64_t snapshot_version) {
  if (!reader_.empty() && reader_.last_version() < snapshot_version) {
    return BeginAnew(snapshot_version);
  }
  if (!reader_.empty() && reader_.first_version() > snapshot_version + 1) {
    return absl::DataLossError(
        absl::StrCat(HeadersPath(dir_), ": the log begins at entry ", reader_.first_version(),
                     ", the newest snapshot that can be read is version ", snapshot_version));
  }
  // A crash loses at most the header that was being written, and the payload after that one was not
  // begun.
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files_, dir_));
  if (!payloads.empty() && payloads.back() > last_version_ + 1) {
    return absl::DataLossError(absl::StrCat("entry ", last_version_ + 1, ": ", HeadersPath(dir_),
                                            ": offset ", reader_.end(),
                                            ": its header is missing, a later payload is there"));
  }
  return reader_.torn() ? Cut() : absl::OkStatus();
}

absl::Status UpdateLog::BeginAnew(uint64_t snapshot_version) {
  RETURN_IF_ERROR(WriteFileDurably(files_, HeadersPath(dir_), {}));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files_, dir_));
  for (const uint64_t version : payloads) {
    if (version <= snapshot_version) {
      RETURN_IF_ERROR(files_.Remove(PayloadPath(dir_, version)));
    }
  }
  ASSIGN_OR_RETURN(reader_, LogReader::Open(files_, dir_, snapshot_version + 1));
  last_version_ = snapshot_version;
  return absl::OkStatus();
}

absl::Status UpdateLog::Cut() {
  headers_ = nullptr;
  RETURN_IF_ERROR(files_.Truncate(HeadersPath(dir_), reader_.end()));
  ASSIGN_OR_RETURN(headers_, files_.OpenToAppend(HeadersPath(dir_)));
  RETURN_IF_ERROR(headers_->Sync());
  return reader_.Refresh();
}

absl::Status UpdateLog::WritePayload(uint64_t version, const SharedBytes& payload) {
  return Annotate(WriteFileDurably(files_, PayloadPath(dir_, version), payload.span()),
                  absl::StrCat("entry ", version, ": payload"));
}

// Reads a replaced file completely before it is appended to or cut: otherwise a fault in reading it
// would be taken for its end.
absl::Status UpdateLog::ReadReplaced() {
  if (!replaced_) return absl::OkStatus();
  RETURN_IF_ERROR(reader_.Refresh());
  const bool whole = reader_.empty() ? !reader_.torn() : reader_.last_version() == last_version_;
  if (!whole) {
    return absl::DataLossError(absl::StrCat(HeadersPath(dir_), ": offset ", reader_.end(),
                                            ": the headers up to entry ", last_version_,
                                            " were written, and cannot be read"));
  }
  replaced_ = false;
  return absl::OkStatus();
}

absl::Status UpdateLog::AppendHeader(const v1::EntryHeader& header) {
  CHECK(header.version() == last_version_ + 1);
  const std::string context = absl::StrCat("entry ", header.version());
  const std::string path = HeadersPath(dir_);
  RETURN_IF_ERROR(Annotate(ReadReplaced(), context));
  if (headers_ == nullptr) {
    // Earlier failures may have left part of a record behind.
    if (files_.Exists(path))
      RETURN_IF_ERROR(Annotate(files_.Truncate(path, reader_.end()), context));
    absl::StatusOr<std::unique_ptr<WritableFile>> file = files_.OpenToAppend(path);
    if (!file.ok()) return Annotate(file.status(), context);
    RETURN_IF_ERROR(Annotate(files_.SyncDirectory(LogDirectory(dir_)), context));
    headers_ = std::move(*file);
  }
  const std::string body = header.SerializeAsString();
  absl::Status status = headers_->Append(BytesOf(EncodeRecord(body)));
  if (status.ok()) status = headers_->Sync();
  if (!status.ok()) {
    headers_ = nullptr;
    // Best effort: a part that stays is torn, and is cut before the next append or at the next
    // open.
    files_.Truncate(path, reader_.end()).IgnoreError();
    return Annotate(status, context);
  }
  last_version_ = header.version();
  reader_.NoteAppended(header.version(), body);
  return absl::OkStatus();
}

absl::Status UpdateLog::DropHeadersBefore(uint64_t first, uint64_t allowance) {
  RETURN_IF_ERROR(ReadReplaced());
  if (reader_.empty() || first <= reader_.first_version()) return absl::OkStatus();
  first = std::min(first, last_version_ + 1);
  const uint64_t end = reader_.BytesBefore(first);
  if (end <= allowance) return absl::OkStatus();
  while (first > reader_.first_version() && end - reader_.BytesBefore(first - 1) <= allowance / 2) {
    --first;
  }
  std::string kept;
  for (uint64_t version = first; version <= last_version_; ++version) {
    ASSIGN_OR_RETURN(const v1::EntryHeader header, reader_.ReadHeader(version));
    kept += EncodeRecord(header.SerializeAsString());
  }
  // Closed first: what is open would still be the old file.
  headers_ = nullptr;
  const absl::Status status = WriteFileDurably(files_, HeadersPath(dir_), BytesOf(kept));
  // Where the rename took place and its sync did not, the new file is the one that is read and
  // written.
  replaced_ = true;
  RETURN_IF_ERROR(ReadReplaced());
  return Annotate(status, HeadersPath(dir_));
}

}  // namespace atolld
