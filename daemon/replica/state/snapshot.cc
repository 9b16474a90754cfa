#include "daemon/replica/state/snapshot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/state_digest.h"

namespace atolld {
namespace {

constexpr std::array<uint8_t, 16> kPreamble = {'A', 'T', 'O', 'L', 'L', 'S', 'N', 'P',
                                               1,   0,   0,   0,   0,   0,   0,   0};

uint64_t Align(uint64_t offset) {
  return (offset + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
}

std::string MakeHead(const v1::SnapshotInfo& info) {
  std::string head(reinterpret_cast<const char*>(kPreamble.data()), kPreamble.size());
  head += EncodeRecord(info.SerializeAsString());
  head.resize(Align(head.size()), '\0');
  return head;
}

// Reads the head without its padding; errors do not name the path, which the caller must add.
absl::Status ReadHead(const ReadableFile& file, v1::SnapshotInfo* info, uint64_t* head_bytes) {
  std::array<uint8_t, kPreamble.size()> preamble;
  if (file.size() <= preamble.size()) {
    return absl::DataLossError(absl::StrCat("offset ", file.size(), ": the file ends early"));
  }
  RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(preamble)));
  if (preamble != kPreamble) {
    return absl::DataLossError("offset 0: not a snapshot of a format that this release reads");
  }
  ASSIGN_OR_RETURN(const Record record, ReadRecord(file, preamble.size()));
  if (record.torn || !info->ParseFromString(record.body)) {
    return absl::DataLossError(
        absl::StrCat("offset ", preamble.size(), ": the description of the snapshot is broken"));
  }
  const absl::Status parts = CheckSnapshotInfo(*info);
  if (!parts.ok()) {
    return absl::DataLossError(absl::StrCat("offset ", preamble.size(), ": ", parts.message()));
  }
  *head_bytes = Align(record.end);
  return absl::OkStatus();
}

}  // namespace

BlockMap::BlockMap(const v1::SnapshotInfo& info)
    : buffer_bytes_(info.genesis().manifest().elements() * sizeof(float)),
      buffers_(static_cast<uint64_t>(info.buffers_size())),
      blocks_a_buffer_((buffer_bytes_ + kBlockBytes - 1) / kBlockBytes) {
  CHECK(blocks_a_buffer_ > 0);
}

size_t BlockMap::Bytes(uint64_t block) const {
  CHECK(block < blocks());
  return static_cast<size_t>(
      std::min<uint64_t>(kBlockBytes, buffer_bytes_ - InBuffer(block) * kBlockBytes));
}

uint64_t BlockMap::BufferOffset(int buffer, uint64_t head_bytes) const {
  return head_bytes + static_cast<uint64_t>(buffer) * Align(buffer_bytes_);
}

uint64_t BlockMap::BlockOffset(uint64_t block, uint64_t head_bytes) const {
  return BufferOffset(Buffer(block), head_bytes) + InBuffer(block) * kBlockBytes;
}

absl::Status CheckBlock(const v1::SnapshotInfo& info, const BlockMap& map, uint64_t block,
                        absl::Span<const uint8_t> bytes) {
  CHECK(block < map.blocks());
  const v1::SnapshotBuffer& buffer = info.buffers(map.Buffer(block));
  if (bytes.size() == map.Bytes(block) &&
      ToBytes(Sha256(bytes)) == buffer.leaves(static_cast<int>(map.InBuffer(block)))) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("block ", block, " (", buffer.name(), ", block ",
                                          map.InBuffer(block),
                                          " of it) is not what the snapshot's leaf says"));
}

SnapshotReader::SnapshotReader(std::string path, std::unique_ptr<ReadableFile> file,
                               v1::SnapshotInfo info, uint64_t head_bytes)
    : path_(std::move(path)),
      file_(std::move(file)),
      info_(std::move(info)),
      map_(info_),
      head_bytes_(head_bytes) {}

absl::StatusOr<std::unique_ptr<SnapshotReader>> SnapshotReader::OpenPartial(
    Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  v1::SnapshotInfo info;
  uint64_t head_bytes = 0;
  RETURN_IF_ERROR(Annotate(ReadHead(*file, &info, &head_bytes), path));
  return std::unique_ptr<SnapshotReader>(
      new SnapshotReader(path, std::move(file), std::move(info), head_bytes));
}

absl::StatusOr<std::unique_ptr<SnapshotReader>> SnapshotReader::Open(Files& files,
                                                                     const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> reader, OpenPartial(files, path));
  const uint64_t last = reader->map_.blocks() - 1;
  const uint64_t end =
      reader->map_.BlockOffset(last, reader->head_bytes_) + reader->map_.Bytes(last);
  if (reader->file_->size() != end) {
    return absl::DataLossError(absl::StrCat(path, ": offset ", reader->file_->size(),
                                            ": the file ends here, it should at ", end));
  }
  return reader;
}

absl::StatusOr<std::unique_ptr<SnapshotReader>> SnapshotReader::OpenVersion(Files& files,
                                                                            const std::string& dir,
                                                                            uint64_t version) {
  const std::string path = SnapshotPath(dir, version);
  ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> reader, Open(files, path));
  if (reader->info().version() == version) return reader;
  return absl::DataLossError(absl::StrCat(path, ": it holds version ", reader->info().version()));
}

absl::Status SnapshotReader::ReadBlock(uint64_t block, absl::Span<uint8_t> out) const {
  CHECK(out.size() == map_.Bytes(block));
  const uint64_t offset = map_.BlockOffset(block, head_bytes_);
  absl::Status status = file_->ReadAt(offset, out);
  if (status.ok()) status = CheckBlock(info_, map_, block, out);
  return Annotate(status, absl::StrCat(path_, ": offset ", offset));
}

absl::Status SnapshotReader::CheckBlocks() const {
  std::vector<uint8_t> bytes(kBlockBytes);
  for (uint64_t block = 0; block < map_.blocks(); ++block) {
    RETURN_IF_ERROR(ReadBlock(block, absl::MakeSpan(bytes).subspan(0, map_.Bytes(block))));
  }
  return absl::OkStatus();
}

SnapshotWriter::SnapshotWriter(Files& files, std::string temporary, v1::SnapshotInfo info,
                               uint64_t head_bytes)
    : files_(files),
      temporary_(std::move(temporary)),
      info_(std::move(info)),
      map_(info_),
      head_bytes_(head_bytes) {}

absl::StatusOr<std::unique_ptr<SnapshotWriter>> SnapshotWriter::Create(Files& files,
                                                                       const std::string& temporary,
                                                                       v1::SnapshotInfo info) {
  const std::string head = MakeHead(info);
  std::unique_ptr<SnapshotWriter> writer(
      new SnapshotWriter(files, temporary, std::move(info), head.size()));
  ASSIGN_OR_RETURN(writer->file_, files.Create(temporary));
  RETURN_IF_ERROR(writer->file_->Append(BytesOf(head)));
  writer->size_ = head.size();
  return writer;
}

absl::StatusOr<std::unique_ptr<SnapshotWriter>> SnapshotWriter::Resume(
    Files& files, const std::string& temporary) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(temporary));
  v1::SnapshotInfo info;
  uint64_t head_bytes = 0;
  RETURN_IF_ERROR(Annotate(ReadHead(*file, &info, &head_bytes), temporary));
  if (file->size() < head_bytes) {
    return absl::DataLossError(absl::StrCat(temporary, ": the file ends in its head"));
  }
  std::unique_ptr<SnapshotWriter> writer(
      new SnapshotWriter(files, temporary, std::move(info), head_bytes));
  writer->size_ = head_bytes;
  std::vector<uint8_t> bytes(kBlockBytes);
  for (uint64_t block = 0; block < writer->map_.blocks(); ++block) {
    const uint64_t offset = writer->map_.BlockOffset(block, head_bytes);
    const absl::Span<uint8_t> part = absl::MakeSpan(bytes).subspan(0, writer->map_.Bytes(block));
    if (offset + part.size() > file->size()) break;
    RETURN_IF_ERROR(file->ReadAt(offset, part));
    if (!CheckBlock(writer->info_, writer->map_, block, part).ok()) break;
    writer->next_block_ = block + 1;
    writer->size_ = offset + part.size();
  }
  RETURN_IF_ERROR(files.Truncate(temporary, writer->size_));
  ASSIGN_OR_RETURN(writer->file_, files.OpenToAppend(temporary));
  return writer;
}

absl::Status SnapshotWriter::AppendBlock(absl::Span<const uint8_t> bytes) {
  CHECK(next_block_ < map_.blocks());
  RETURN_IF_ERROR(CheckBlock(info_, map_, next_block_, bytes));
  const uint64_t offset = map_.BlockOffset(next_block_, head_bytes_);
  const std::vector<uint8_t> padding(offset - size_, 0);
  if (!padding.empty()) RETURN_IF_ERROR(file_->Append(padding));
  RETURN_IF_ERROR(file_->Append(bytes));
  size_ = offset + bytes.size();
  ++next_block_;
  return absl::OkStatus();
}

absl::Status SnapshotWriter::Sync() { return file_->Sync(); }

absl::Status SnapshotWriter::Finish(const std::string& path) {
  CHECK(next_block_ == map_.blocks());
  RETURN_IF_ERROR(file_->Sync());
  file_ = nullptr;
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> written, files_.OpenToRead(temporary_));
  if (written->size() != size_) {
    return absl::DataLossError(
        absl::StrCat(temporary_, ": it has ", written->size(), " bytes, ", size_, " were written"));
  }
  RETURN_IF_ERROR(files_.Rename(temporary_, path));
  return files_.SyncDirectory(DirectoryOf(path));
}

}  // namespace atolld
