#include "daemon/replica/state/snapshot_build.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/state_memory.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/fragment.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

std::string NameOf(absl::string_view digest_bytes) {
  const absl::StatusOr<Digest> digest = DigestFromBytes(digest_bytes);
  return digest.ok() ? ToHex(*digest) : "none";
}

}  // namespace

// One entry of the tail, open for reading chunk by chunk.
struct SnapshotBuild::TailEntry {
  v1::EntryHeader header;
  std::string path;
  EntryStep step;
  std::unique_ptr<PayloadCheck> check;  // null once the whole payload was read
  std::unique_ptr<ReadableFile> file;
  std::vector<uint64_t> offsets;
};

SnapshotBuild::SnapshotBuild(Files& files, std::string dir, std::unique_ptr<SnapshotReader> base,
                             uint64_t version, std::string path, std::optional<Digest> expected)
    : files_(files),
      dir_(std::move(dir)),
      base_(std::move(base)),
      version_(version),
      path_(std::move(path)),
      expected_(expected.has_value() ? ToBytes(*expected) : ""),
      info_(base_->info()) {
  CHECK(version_ >= base_->info().version());
}

SnapshotBuild::SnapshotBuild(Files& files, std::string dir, std::unique_ptr<SnapshotReader> base,
                             uint64_t version, OnBlock on_block)
    : files_(files),
      dir_(std::move(dir)),
      base_(std::move(base)),
      version_(version),
      on_block_(std::move(on_block)),
      info_(base_->info()) {
  CHECK(version_ >= base_->info().version());
}

SnapshotBuild::~SnapshotBuild() {
  // Best effort: what stays ends in ".tmp" and is removed when the replica is next opened.
  for (const std::string& stage : stage_paths_) files_.Remove(stage).IgnoreError();
}

uint64_t SnapshotBuild::base_version() const { return base_->info().version(); }

absl::StatusOr<bool> SnapshotBuild::Step() {
  absl::Status status;
  switch (phase_) {
    case Phase::kTail:
      status = chain_open_ ? CheckTail() : OpenChain();
      break;
    case Phase::kBlocks:
      status = StepBlocks();
      break;
    case Phase::kCopy:
      status = Copy();
      break;
    case Phase::kFinished:
      break;
  }
  if (!status.ok()) return Annotate(status, absl::StrCat("snapshot of version ", version_));
  return phase_ == Phase::kFinished;
}

absl::Status SnapshotBuild::Blame(BuildFault fault, const absl::Status& status) {
  if (absl::IsDataLoss(status)) fault_ = fault;
  return status;
}

std::string SnapshotBuild::StagePath(size_t buffer, uint64_t block) const {
  return absl::StrCat(path_, ".", info_.buffers(static_cast<int>(buffer)).name(), ".",
                      block / kStageBlocks, ".tmp");
}

// Opens the chain from the base to the version, and checks the digests that its headers have for
// the states at its ends.
absl::Status SnapshotBuild::OpenChain() {
  const uint64_t base = base_version();
  Digest previous =
      info_.has_header() ? HeaderDigest(info_.header()) : GenesisDigest(info_.genesis());
  absl::StatusOr<LogReader> log = LogReader::Open(files_, dir_, base + 1);
  if (!log.ok()) return Blame(BuildFault::kLog, log.status());
  const uint64_t last = log->empty() ? base : log->last_version();
  // Beyond the new version only its successor is read, which says what the new state has to be.
  const uint64_t end = std::min(last, version_ + 1);
  const Fragments fragments(info_.genesis().spec(), info_.genesis().manifest());
  for (uint64_t v = base + 1; v <= std::max(version_, end); ++v) {
    absl::StatusOr<v1::EntryHeader> header = log->ReadHeader(v);
    if (!header.ok()) return Blame(BuildFault::kLog, header.status());
    if (v == base + 1 && header->previous_state_digest() != info_.state_digest()) {
      return Blame(BuildFault::kBase, absl::DataLossError(absl::StrCat(
                                          SnapshotPath(dir_, base), ": its state has digest ",
                                          NameOf(info_.state_digest()), ", the header of entry ", v,
                                          " says ", NameOf(header->previous_state_digest()))));
    }
    if (v > version_) {
      expected_ = header->previous_state_digest();
      break;
    }
    const absl::Status chain = CheckHeader(info_.genesis(), v - 1, previous, *header);
    if (!chain.ok()) {
      return Blame(BuildFault::kLog,
                   absl::DataLossError(absl::StrCat(HeadersPath(dir_), ": ", chain.message())));
    }
    ASSIGN_OR_RETURN(EntryStep step, EntryStep::Make(fragments, *header));
    previous = HeaderDigest(*header);
    tail_.push_back(std::make_unique<TailEntry>(TailEntry{
        *std::move(header), PayloadPath(dir_, v), std::move(step), nullptr, nullptr, {}}));
  }
  // All are opened at once: from here on nothing that is dropped beside can be missed.
  for (const auto& entry : tail_) {
    ASSIGN_OR_RETURN(entry->check, PayloadCheck::Open(files_, dir_, entry->header));
    ASSIGN_OR_RETURN(entry->file, files_.OpenToRead(entry->path));
  }
  if (!tail_.empty()) *info_.mutable_header() = tail_.back()->header;
  info_.set_version(version_);
  chain_open_ = true;
  return absl::OkStatus();
}

// Checks every payload completely before any step uses it.
absl::Status SnapshotBuild::CheckTail() {
  uint64_t budget = kSliceBlocks;
  for (const auto& entry : tail_) {
    while (entry->check != nullptr) {
      if (budget-- == 0) return absl::OkStatus();
      const absl::StatusOr<bool> checked = entry->check->Step();
      if (!checked.ok()) return Blame(BuildFault::kLog, checked.status());
      if (*checked) entry->check = nullptr;
    }
    if (!entry->offsets.empty()) continue;
    const EntryStep& step = entry->step;
    std::vector<uint8_t> table(std::min(entry->file->size(), PayloadTableBytes(step.grid())));
    RETURN_IF_ERROR(entry->file->ReadAt(0, absl::MakeSpan(table)));
    absl::StatusOr<std::vector<uint64_t>> offsets =
        PayloadOffsets(step.grid(), step.codec(), table, entry->file->size());
    if (!offsets.ok()) return Annotate(offsets.status(), entry->path);
    entry->offsets = *std::move(offsets);
  }
  for (v1::SnapshotBuffer& buffer : *info_.mutable_buffers()) buffer.clear_leaves();
  values_.resize(static_cast<size_t>(info_.buffers_size()));
  stages_.resize(values_.size());
  phase_ = Phase::kBlocks;
  return absl::OkStatus();
}

absl::Status SnapshotBuild::StepBlocks() {
  const uint64_t blocks = base_->map().blocks_a_buffer();
  uint64_t budget = kSliceBlocks;
  while (next_block_ < blocks) {
    const size_t elements = base_->map().Bytes(next_block_) / sizeof(float);
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i].resize(elements);
      const absl::Status read =
          base_->ReadBlock(i * blocks + next_block_, BytesOf(absl::MakeSpan(values_[i])));
      if (!read.ok()) return Blame(BuildFault::kBase, read);
    }
    for (const auto& entry : tail_) {
      RETURN_IF_ERROR(
          Annotate(StepBlock(*entry, next_block_ * kBlockElements, elements), entry->path));
    }
    RETURN_IF_ERROR(Stage(next_block_));
    ++next_block_;
    const uint64_t used = values_.size() + tail_.size();
    if (used >= budget) break;
    budget -= used;
  }
  return next_block_ == blocks ? Describe() : absl::OkStatus();
}

// Steps the values [begin, begin + elements) of the state by the chunks that overlap them.
absl::Status SnapshotBuild::StepBlock(const TailEntry& entry, uint64_t begin, uint64_t elements) {
  const ChunkGrid& grid = entry.step.grid();
  std::optional<uint32_t> decoded;
  for (const FragmentMap::Piece& piece : entry.step.covers().Meeting(begin, elements)) {
    const uint64_t end = piece.at + piece.count;
    for (uint64_t at = piece.at; at < end;) {
      const auto chunk = static_cast<uint32_t>(at / grid.chunk_elements());
      const uint64_t chunk_begin = grid.Offset(chunk);
      const uint64_t next = std::min(end, chunk_begin + grid.Elements(chunk));
      if (decoded != chunk) RETURN_IF_ERROR(DecodeChunk(entry, chunk));
      decoded = chunk;
      std::vector<absl::Span<float>> parts;
      for (std::vector<float>& buffer : values_) {
        parts.push_back(
            absl::MakeSpan(buffer).subspan(piece.first + at - piece.at - begin, next - at));
      }
      entry.step.StepRange(absl::MakeConstSpan(mean_).subspan(at - chunk_begin, next - at),
                           parts[0], absl::MakeConstSpan(parts).subspan(1));
      at = next;
    }
  }
  return absl::OkStatus();
}

// Decodes a chunk into mean_.
absl::Status SnapshotBuild::DecodeChunk(const TailEntry& entry, uint32_t chunk) {
  encoded_.resize(entry.offsets[chunk + 1] - entry.offsets[chunk]);
  mean_.resize(entry.step.grid().Elements(chunk));
  RETURN_IF_ERROR(entry.file->ReadAt(entry.offsets[chunk], absl::MakeSpan(encoded_)));
  return Annotate(entry.step.DecodeMean(chunk, encoded_, absl::MakeSpan(mean_)),
                  absl::StrCat("chunk ", chunk));
}

// Notes the digests of the stepped values of one block, and writes the values to stage files or
// hands them over.
absl::Status SnapshotBuild::Stage(uint64_t block) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const absl::Span<const uint8_t> bytes = BytesOf(absl::MakeConstSpan(values_[i]));
    info_.mutable_buffers(static_cast<int>(i))->add_leaves(ToBytes(Sha256(bytes)));
    if (on_block_) continue;
    if (block % kStageBlocks == 0) {
      stage_paths_.push_back(StagePath(i, block));
      ASSIGN_OR_RETURN(stages_[i], files_.Create(stage_paths_.back()));
    }
    RETURN_IF_ERROR(stages_[i]->Append(bytes));
  }
  return on_block_ ? on_block_(values_) : absl::OkStatus();
}

absl::Status SnapshotBuild::Describe() {
  stages_.clear();
  next_block_ = 0;
  const std::string digest = ToBytes(StateDigestOf(info_));
  if (!expected_.empty() && digest != expected_) {
    return Blame(BuildFault::kState, absl::DataLossError(absl::StrCat(
                                         "the state made from ", SnapshotPath(dir_, base_version()),
                                         " and ", LogDirectory(dir_), " has digest ",
                                         NameOf(digest), ", it should have ", NameOf(expected_))));
  }
  info_.set_state_digest(digest);
  if (on_block_) {
    phase_ = Phase::kFinished;
    return absl::OkStatus();
  }
  const std::string temporary = absl::StrCat(path_, ".tmp");
  stage_paths_.push_back(temporary);  // gone under this name once it is finished
  ASSIGN_OR_RETURN(writer_, SnapshotWriter::Create(files_, temporary, info_));
  phase_ = Phase::kCopy;
  return absl::OkStatus();
}

absl::Status SnapshotBuild::Copy() {
  const BlockMap& map = writer_->map();
  std::vector<uint8_t> bytes(kBlockBytes);
  const uint64_t end = std::min(map.blocks(), next_block_ + kSliceBlocks);
  for (; next_block_ < end; ++next_block_) {
    const uint64_t in_buffer = map.InBuffer(next_block_);
    const std::string path = StagePath(static_cast<size_t>(map.Buffer(next_block_)), in_buffer);
    if (in_buffer % kStageBlocks == 0) {
      ASSIGN_OR_RETURN(stage_, files_.OpenToRead(path));
    }
    const absl::Span<uint8_t> part = absl::MakeSpan(bytes).subspan(0, map.Bytes(next_block_));
    RETURN_IF_ERROR(stage_->ReadAt(in_buffer % kStageBlocks * kBlockBytes, part));
    RETURN_IF_ERROR(Annotate(writer_->AppendBlock(part), path_));
    if (in_buffer % kStageBlocks + 1 < kStageBlocks && in_buffer + 1 < map.blocks_a_buffer()) {
      continue;
    }
    stage_ = nullptr;
    RETURN_IF_ERROR(files_.Remove(path));
    // A little at a time, or a commit's own sync would wait for all of it.
    RETURN_IF_ERROR(writer_->Sync());
  }
  if (next_block_ < map.blocks()) return absl::OkStatus();
  RETURN_IF_ERROR(writer_->Finish(path_));
  phase_ = Phase::kFinished;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SnapshotReader>> FindSnapshot(Files& files, const std::string& dir,
                                                             uint64_t version) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListSnapshots(files, dir));
  absl::Status why = absl::NotFoundError(
      absl::StrCat(SnapshotsDirectory(dir), ": no snapshot at or before version ", version));
  for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
    if (*it > version) continue;
    absl::StatusOr<std::unique_ptr<SnapshotReader>> reader =
        SnapshotReader::OpenVersion(files, dir, *it);
    if (reader.ok()) return reader;
    if (absl::IsNotFound(why)) why = reader.status();
  }
  return why;
}

absl::Status BuildSnapshot(Files& files, const std::string& dir,
                           std::unique_ptr<SnapshotReader> base, uint64_t version,
                           const std::string& path) {
  SnapshotBuild build(files, dir, std::move(base), version, path, std::nullopt);
  while (true) {
    ASSIGN_OR_RETURN(const bool done, build.Step());
    if (done) return absl::OkStatus();
  }
}

}  // namespace atolld
