#include "daemon/replica/snapshot_build.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/replica/header.h"
#include "daemon/replica/layout.h"
#include "daemon/replica/outer_step.h"
#include "daemon/replica/state_digest.h"
#include "daemon/replica/update_log.h"
#include "daemon/status_macros.h"

namespace atolld {
namespace {

// One entry of the tail, open for reading chunk by chunk.
struct TailEntry {
  std::string path;
  EntryStep step;
  std::unique_ptr<ReadableFile> file;
  std::vector<uint64_t> offsets;
};

absl::StatusOr<TailEntry> OpenEntry(Files& files, const std::string& dir,
                                    const v1::EntryHeader& header) {
  RETURN_IF_ERROR(CheckPayloadFile(files, dir, header));
  ASSIGN_OR_RETURN(EntryStep step, EntryStep::Make(header));
  std::string path = PayloadPath(dir, header.version());
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  std::vector<uint8_t> table(std::min(file->size(), PayloadTableBytes(step.grid())));
  RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(table)));
  ASSIGN_OR_RETURN(std::vector<uint64_t> offsets,
                   PayloadOffsets(step.grid(), step.codec(), table, file->size()));
  return TailEntry{std::move(path), std::move(step), std::move(file), std::move(offsets)};
}

class SnapshotBuild {
 public:
  SnapshotBuild(Files& files, const std::string& dir, const SnapshotReader& base, uint64_t version,
                const std::string& path)
      : files_(files), dir_(dir), base_(base), version_(version), path_(path) {}

  ~SnapshotBuild() {
    // Best effort: what stays ends in ".tmp" and is removed when the replica is next opened.
    for (const std::string& stage : stage_paths_) files_.Remove(stage).IgnoreError();
  }

  absl::Status Run() {
    RETURN_IF_ERROR(OpenTail());
    RETURN_IF_ERROR(StepBlocks());
    RETURN_IF_ERROR(Describe());
    return Assemble();
  }

 private:
  // The chain from the base to the version, and what the next header says of it.
  absl::Status OpenTail() {
    info_ = base_.info();
    Digest previous =
        info_.has_header() ? HeaderDigest(info_.header()) : GenesisDigest(info_.genesis());
    ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files_, dir_, info_.version() + 1));
    for (uint64_t v = base_.info().version() + 1; v <= version_; ++v) {
      ASSIGN_OR_RETURN(const v1::EntryHeader header, log.ReadHeader(v));
      RETURN_IF_ERROR(CheckHeader(info_.genesis(), v - 1, previous, header));
      absl::StatusOr<TailEntry> entry = OpenEntry(files_, dir_, header);
      if (!entry.ok()) return Annotate(entry.status(), absl::StrCat("entry ", v));
      tail_.push_back(*std::move(entry));
      previous = HeaderDigest(header);
      *info_.mutable_header() = header;
    }
    info_.set_version(version_);
    if (!log.empty() && log.last_version() > version_) {
      ASSIGN_OR_RETURN(const v1::EntryHeader next, log.ReadHeader(version_ + 1));
      expected_ = next.previous_state_digest();
    }
    return absl::OkStatus();
  }

  // The new blocks go to one file a buffer, since their digests must stand before them in the
  // snapshot.
  absl::Status StepBlocks() {
    std::vector<std::unique_ptr<WritableFile>> stages;
    for (v1::SnapshotBuffer& buffer : *info_.mutable_buffers()) {
      buffer.clear_leaves();
      stage_paths_.push_back(absl::StrCat(path_, ".", buffer.name(), ".tmp"));
      ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> stage, files_.Create(stage_paths_.back()));
      stages.push_back(std::move(stage));
    }
    std::vector<std::vector<float>> values(stages.size(), std::vector<float>(kBlockElements));
    for (uint64_t block = 0; block < base_.map().blocks_a_buffer(); ++block) {
      const size_t elements = base_.map().Bytes(block) / sizeof(float);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i].resize(elements);
        RETURN_IF_ERROR(base_.ReadBlock(i * base_.map().blocks_a_buffer() + block,
                                        BytesOf(absl::MakeSpan(values[i]))));
      }
      for (const TailEntry& entry : tail_) {
        RETURN_IF_ERROR(
            Annotate(StepBlock(entry, block * kBlockElements, elements, &values), entry.path));
      }
      for (size_t i = 0; i < values.size(); ++i) {
        const absl::Span<const uint8_t> bytes = BytesOf(absl::MakeConstSpan(values[i]));
        info_.mutable_buffers(static_cast<int>(i))->add_leaves(ToBytes(Sha256(bytes)));
        RETURN_IF_ERROR(stages[i]->Append(bytes));
      }
    }
    return absl::OkStatus();
  }

  // Steps the values [begin, begin + elements) of the state by the chunks that meet them.
  absl::Status StepBlock(const TailEntry& entry, uint64_t begin, uint64_t elements,
                         std::vector<std::vector<float>>* values) {
    const ChunkGrid& grid = entry.step.grid();
    const uint64_t end = begin + elements;
    for (uint64_t at = begin; at < end;) {
      const uint32_t chunk = static_cast<uint32_t>(at / grid.chunk_elements());
      const uint64_t chunk_begin = grid.Offset(chunk);
      const uint64_t next = std::min(end, chunk_begin + grid.Elements(chunk));
      encoded_.resize(entry.offsets[chunk + 1] - entry.offsets[chunk]);
      mean_.resize(grid.Elements(chunk));
      RETURN_IF_ERROR(entry.file->ReadAt(entry.offsets[chunk], absl::MakeSpan(encoded_)));
      RETURN_IF_ERROR(Annotate(entry.step.codec().Decode(encoded_, absl::MakeSpan(mean_)),
                               absl::StrCat("chunk ", chunk)));
      std::vector<absl::Span<float>> parts;
      for (std::vector<float>& buffer : *values) {
        parts.push_back(absl::MakeSpan(buffer).subspan(at - begin, next - at));
      }
      entry.step.StepRange(absl::MakeConstSpan(mean_).subspan(at - chunk_begin, next - at),
                           parts[0], absl::MakeConstSpan(parts).subspan(1));
      at = next;
    }
    return absl::OkStatus();
  }

  absl::Status Describe() {
    const Digest digest = StateDigestOf(info_);
    if (!expected_.empty() && ToBytes(digest) != expected_) {
      const absl::StatusOr<Digest> expected = DigestFromBytes(expected_);
      return absl::DataLossError(absl::StrCat(
          "version ", version_, ": the state made from ",
          SnapshotPath(dir_, base_.info().version()), " and the log has digest ", ToHex(digest),
          ", the next header says ", expected.ok() ? ToHex(*expected) : "none"));
    }
    info_.set_state_digest(ToBytes(digest));
    return absl::OkStatus();
  }

  absl::Status Assemble() {
    ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotWriter> writer,
                     SnapshotWriter::Create(files_, absl::StrCat(path_, ".tmp"), info_));
    // gone under this name once it is finished
    stage_paths_.push_back(absl::StrCat(path_, ".tmp"));
    std::vector<uint8_t> bytes(kBlockBytes);
    std::unique_ptr<ReadableFile> stage;
    for (uint64_t block = 0; block < writer->map().blocks(); ++block) {
      const uint64_t in_buffer = writer->map().InBuffer(block);
      if (in_buffer == 0) {
        const size_t buffer = static_cast<size_t>(writer->map().Buffer(block));
        ASSIGN_OR_RETURN(stage, files_.OpenToRead(stage_paths_[buffer]));
      }
      const absl::Span<uint8_t> part = absl::MakeSpan(bytes).subspan(0, writer->map().Bytes(block));
      RETURN_IF_ERROR(stage->ReadAt(in_buffer * kBlockBytes, part));
      RETURN_IF_ERROR(Annotate(writer->AppendBlock(part), path_));
    }
    return writer->Finish(path_);
  }

  Files& files_;
  const std::string& dir_;
  const SnapshotReader& base_;
  const uint64_t version_;
  const std::string& path_;

  v1::SnapshotInfo info_;
  std::string expected_;  // the state digest that the next header carries, if there is one
  std::vector<TailEntry> tail_;
  std::vector<std::string> stage_paths_;
  std::vector<uint8_t> encoded_;
  std::vector<float> mean_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SnapshotReader>> FindSnapshot(Files& files, const std::string& dir,
                                                             uint64_t version) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListSnapshots(files, dir));
  absl::Status why = absl::NotFoundError(
      absl::StrCat(SnapshotsDirectory(dir), ": no snapshot at or before version ", version));
  for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
    if (*it > version) continue;
    absl::StatusOr<std::unique_ptr<SnapshotReader>> reader =
        SnapshotReader::Open(files, SnapshotPath(dir, *it));
    if (reader.ok() && (*reader)->info().version() != *it) {
      reader = absl::DataLossError(
          absl::StrCat(SnapshotPath(dir, *it), ": it holds version ", (*reader)->info().version()));
    }
    if (reader.ok()) return reader;
    if (absl::IsNotFound(why)) why = reader.status();
  }
  return why;
}

absl::Status BuildSnapshot(Files& files, const std::string& dir, const SnapshotReader& base,
                           uint64_t version, const std::string& path) {
  CHECK(version >= base.info().version());
  const absl::Status status = SnapshotBuild(files, dir, base, version, path).Run();
  return Annotate(status, absl::StrCat("snapshot of version ", version));
}

}  // namespace atolld
