#include "daemon/peer/residual.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/error_feedback.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/digest.h"
#include "membership/history/header.h"
#include "membership/history/mean_records.h"

namespace atolld {
namespace {

// After a save, the next one waits this many times as long as the save took: so that saving takes
// at most a twentieth of the time for any model. If a save is left out, the only effect is that a
// restart loses this residual.
constexpr int kRest = 19;

bool Bit(const std::string& bitmap, int position) {
  const size_t byte = static_cast<size_t>(position) / 8;
  return byte < bitmap.size() && ((static_cast<uint8_t>(bitmap[byte]) >> (position % 8)) & 1) != 0;
}

constexpr char kMagic[] = "atoll.residual.1";

std::string Little(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

uint64_t FromLittle(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

std::string Prefix(const v1::Genesis& genesis) {
  return absl::StrCat(kMagic, ToBytes(GenesisDigest(genesis)));
}

absl::Status RemoveResidual(Files& files, const std::string& dir) {
  if (!files.Exists(ResidualPath(dir))) return absl::OkStatus();
  RETURN_IF_ERROR(files.Remove(ResidualPath(dir)));
  return files.SyncDirectory(dir);
}

absl::Status WriteTo(WritableFile& file, const std::string& head, absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(file.Append(BytesOf(head)));
  for (size_t offset = 0; offset < bytes.size(); offset += kBlockBytes) {
    RETURN_IF_ERROR(file.Append(bytes.subspan(offset, kBlockBytes)));
  }
  return file.Sync();
}

// Fails with NOT_FOUND if a header in (version, committed] includes the peer or is missing.
absl::Status CheckNotIncluded(Files& files, const std::string& dir, uint64_t version,
                              uint64_t committed, const std::string& peer) {
  if (version > committed) return absl::NotFoundError("its version was never committed here");
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, version + 1));
  for (uint64_t later = version + 1; later <= committed; ++later) {
    ASSIGN_OR_RETURN(const v1::EntryHeader header, log.ReadHeader(later));
    for (const v1::Contributor& contributor : header.contributors()) {
      if (contributor.peer() != peer) continue;
      return absl::NotFoundError(absl::StrCat("it is of version ", version, ", entry ", later,
                                              " has included this peer since"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

float FeedbackDecay(const v1::RunSpec& spec) {
  const uint32_t bits = spec.exchange().feedback_decay_bits();
  if (bits == 0) return 1.0f;
  float decay;
  std::memcpy(&decay, &bits, sizeof(decay));
  return decay;
}

absl::Status SubtractIncluded(const v1::EntryHeader& header, int position, const ChunkGrid& grid,
                              const Codec& codec, const Contribution& contribution,
                              absl::Span<float> residual) {
  absl::Status first_error;
  const auto subtract = [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
    if (!Bit(set.contributors(), position)) return;
    for (uint32_t i = 0; i < chunks && first + i < contribution.chunks.size(); ++i) {
      const uint32_t chunk = first + i;
      if (contribution.chunks[chunk].empty()) continue;  // an expert of others
      const absl::Span<float> part = residual.subspan(grid.Offset(chunk), grid.Elements(chunk));
      first_error.Update(SubtractSent(codec, contribution.chunks[chunk].span(), part));
    }
  };
  for (const v1::ShardRecord& shard : header.records().shards()) {
    ForEachRun(header.records(), shard, subtract);
  }
  return first_error;
}

std::string ResidualPath(const std::string& dir) { return absl::StrCat(dir, "/residual"); }

absl::Status SaveResidual(Files& files, const std::string& dir, const v1::Genesis& genesis,
                          uint64_t version, absl::Span<const float> values) {
  const absl::Span<const uint8_t> bytes = BytesOf(values);
  const std::string head = EncodeRecord(absl::StrCat(
      Prefix(genesis), Little(version), Little(values.size()), ToBytes(TreeDigest(bytes))));
  const std::string temporary = absl::StrCat(ResidualPath(dir), ".tmp");
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(temporary));
    RETURN_IF_ERROR(WriteTo(*file, head, bytes));
  }
  RETURN_IF_ERROR(files.Rename(temporary, ResidualPath(dir)));
  return files.SyncDirectory(dir);
}

absl::StatusOr<std::vector<float>> LoadResidual(Files& files, const std::string& dir,
                                                const v1::Genesis& genesis, uint64_t committed,
                                                const std::string& peer) {
  const std::string path = ResidualPath(dir);
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  const absl::Status broken = absl::DataLossError(absl::StrCat(path, ": it is broken"));
  if (file->size() == 0) return broken;
  ASSIGN_OR_RETURN(const Record record, ReadRecord(*file, 0));
  const std::string prefix = Prefix(genesis);
  if (record.torn || record.body.size() != prefix.size() + 8 + 8 + 32) return broken;
  if (record.body.substr(0, prefix.size()) != prefix) {
    return absl::NotFoundError(absl::StrCat(path, ": it is of another run"));
  }
  const absl::string_view rest = absl::string_view(record.body).substr(prefix.size());
  const uint64_t elements = FromLittle(rest.substr(8));
  if (elements != genesis.manifest().elements() ||
      file->size() != record.end + elements * sizeof(float)) {
    return broken;
  }
  RETURN_IF_ERROR(Annotate(CheckNotIncluded(files, dir, FromLittle(rest), committed, peer), path));
  std::vector<float> values(elements);
  RETURN_IF_ERROR(file->ReadAt(record.end, BytesOf(absl::MakeSpan(values))));
  if (ToBytes(TreeDigest(BytesOf(absl::MakeConstSpan(values)))) != rest.substr(16)) return broken;
  return values;
}

void Residual::Load(const v1::Genesis& genesis, uint64_t version) {
  absl::StatusOr<std::vector<float>> values =
      LoadResidual(env_.files, dir_, genesis, version, self_);
  if (!values.ok()) {
    // Losing the residual is allowed: training continues, and the updates lose a little once.
    const std::string why = absl::StrCat("the residual is not used: ", values.status().message());
    if (!absl::IsNotFound(values.status())) {
      env_.log.Warning(why);
    } else if (env_.files.Exists(ResidualPath(dir_))) {
      env_.log.Info(why);
    }
    return;
  }
  values_ = std::make_shared<const std::vector<float>>(*std::move(values));
  version_ = version;
  loaded_ = true;
  saved_ = version_;
  env_.log.Info(absl::StrCat("version ", version, ": the residual was found on disk"));
}

std::vector<float> Residual::With(const Fragments& fragments, uint64_t version,
                                  absl::Span<const float> entry) const {
  std::vector<float> whole;
  if (values_ != nullptr) {
    whole = *values_;
  } else {
    whole.resize(fragments.elements(), 0.0f);
  }
  ScatterEntry(fragments.Of(version), entry, absl::MakeSpan(whole));
  return whole;
}

void Residual::Discard(const v1::Genesis& genesis) {
  Forget();
  discarded_ = true;
  Save(genesis, nullptr);
}

void Residual::Settle(uint64_t version, std::shared_ptr<const std::vector<float>> values) {
  version_ = version;
  loaded_ = false;
  values_ = std::move(values);
}

void Residual::Keep(const v1::Genesis& genesis) {
  if (env_.executor.Now() >= may_save_) Save(genesis, nullptr);
}

void Residual::Save(const v1::Genesis& genesis, Task done) {
  if (done) waiting_.push_back(std::move(done));
  if (saving_) return;
  const bool newer = values_ != nullptr && version_ != saved_;
  if (!newer && !discarded_) {
    for (const Task& waiting : std::exchange(waiting_, {})) waiting();
    return;
  }
  saving_ = true;
  discarded_ = false;  // removed now, or replaced by newer values
  const absl::Time began = env_.executor.Now();
  auto status = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [files = &env_.files, dir = dir_, genesis, version = version_,
       values = newer ? values_ : nullptr, status] {
        *status = values != nullptr ? SaveResidual(*files, dir, genesis, version, *values)
                                    : RemoveResidual(*files, dir);
      },
      guard_.Wrap([this, status, began, genesis, version = newer ? version_ : saved_] {
        saving_ = false;
        saved_ = version;
        const absl::Time now = env_.executor.Now();
        may_save_ = now + kRest * (now - began);
        if (!status->ok()) env_.log.Warning(absl::StrCat("residual: ", status->message()));
        if (!waiting_.empty() || discarded_) Save(genesis, nullptr);
      }));
}

}  // namespace atolld
