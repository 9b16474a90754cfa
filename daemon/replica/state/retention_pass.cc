#include "daemon/replica/state/retention_pass.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/state/verify.h"
#include "membership/history/fragment.h"
#include "membership/history/payload.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

// The entries for which there must be room at any time: the one that fills it, and two that come
// while a snapshot is made.
constexpr uint64_t kEntriesMeanwhile = 3;

// The entries that may accumulate under the smallest limit before a snapshot must include them.
constexpr uint64_t kLeastTail = 2;

// With a limit, old headers get at most this share of it.
constexpr uint64_t kHeaderShare = 64;

// A header may be longer than the newest one: another set of contributors, more exceptions.
constexpr uint64_t kHeaderSlack = 256;

absl::StatusOr<std::map<uint64_t, uint64_t>> Sizes(Files& files, const std::string& dir,
                                                   const std::vector<uint64_t>& versions,
                                                   std::string (*path_of)(const std::string&,
                                                                          uint64_t)) {
  std::map<uint64_t, uint64_t> sizes;
  for (const uint64_t version : versions) {
    const absl::StatusOr<std::unique_ptr<ReadableFile>> file =
        files.OpenToRead(path_of(dir, version));
    if (absl::IsNotFound(file.status())) continue;
    RETURN_IF_ERROR(file.status());
    sizes[version] = (*file)->size();
  }
  return sizes;
}

uint64_t Sum(const std::map<uint64_t, uint64_t>& sizes) {
  uint64_t sum = 0;
  for (const auto& [version, bytes] : sizes) sum += bytes;
  return sum;
}

// Returns the bytes that are left when everything before the snapshot `oldest` is gone.
uint64_t BytesFrom(uint64_t oldest, const StoredFiles& stored, const FileSizes& sizes,
                   uint64_t allowance) {
  // The file of headers is written anew beside itself.
  uint64_t bytes = allowance;
  for (const auto& [version, size] : stored.snapshots) bytes += version >= oldest ? size : 0;
  for (const auto& [version, size] : stored.payloads) {
    if (version > oldest) bytes += size + 2 * sizes.header;
  }
  return bytes;
}

// Each entry of a tail holds a file open while the snapshot is made; a longer tail is taken in
// several steps.
constexpr uint64_t kMaxTailEntries = 256;

}  // namespace

uint64_t StoredFiles::total() const {
  return Sum(snapshots) + Sum(damaged) + Sum(payloads) + header_bytes;
}

absl::StatusOr<StoredFiles> MeasureFiles(Files& files, const std::string& dir) {
  StoredFiles stored;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  ASSIGN_OR_RETURN(stored.snapshots, Sizes(files, dir, snapshots, &SnapshotPath));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> damaged, ListDamagedSnapshots(files, dir));
  ASSIGN_OR_RETURN(stored.damaged, Sizes(files, dir, damaged, &DamagedSnapshotPath));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  ASSIGN_OR_RETURN(stored.payloads, Sizes(files, dir, payloads, &PayloadPath));
  const absl::StatusOr<std::unique_ptr<ReadableFile>> headers = files.OpenToRead(HeadersPath(dir));
  if (headers.ok()) stored.header_bytes = (*headers)->size();
  return stored;
}

FileSizes SizesOf(const v1::SnapshotInfo& newest, uint64_t snapshot_bytes) {
  const uint64_t elements = newest.genesis().manifest().elements();
  const Codec& codec = PayloadCodec(newest.genesis().spec().exchange());
  const ChunkGrid grid(MostEntryElements(newest.genesis().spec(), newest.genesis().manifest()),
                       newest.genesis().spec().exchange().chunk_elements());
  FileSizes sizes;
  // Its description holds a header, which may grow past the alignment.
  sizes.snapshot = snapshot_bytes + kSnapshotAlignment;
  sizes.stage = std::min(elements * sizeof(float), kStageBlocks * kBlockBytes);
  sizes.header = newest.header().ByteSizeLong() + kRecordOverhead + kHeaderSlack;
  sizes.entry = MaxPayloadBytes(grid, codec) + 2 * sizes.header;
  return sizes;
}

uint64_t LeastKeepBytes(const FileSizes& sizes) {
  const uint64_t least =
      2 * sizes.snapshot + sizes.stage + (kLeastTail + kEntriesMeanwhile) * sizes.entry;
  return least + least / (kHeaderShare - 1) + 1;  // of which a share is for old headers
}

uint64_t ByteLimit(const RetentionPolicy& policy, const FileSizes& sizes) {
  if (policy.keep_bytes == 0) return 0;
  return std::max(policy.keep_bytes, LeastKeepBytes(sizes));
}

uint64_t HeaderAllowance(const RetentionPolicy& policy, uint64_t limit) {
  if (limit == 0) return policy.keep_header_bytes;
  return std::min(policy.keep_header_bytes, limit / kHeaderShare);
}

RetentionPlan PlanRetention(const RetentionPolicy& policy, const StoredFiles& stored,
                            const FileSizes& sizes, uint64_t committed) {
  const uint64_t limit = ByteLimit(policy, sizes);
  const uint64_t allowance = HeaderAllowance(policy, limit);
  std::vector<uint64_t> versions;
  for (const auto& [version, bytes] : stored.snapshots) versions.push_back(version);
  CHECK(!versions.empty() && versions.back() <= committed);
  const uint64_t making = sizes.snapshot + sizes.stage;
  // Whether all from `oldest` on, and what comes meanwhile, fits beside a snapshot in the making.
  const auto fits = [&](uint64_t oldest, uint64_t meanwhile) {
    return limit == 0 ||
           BytesFrom(oldest, stored, sizes, allowance) + making + meanwhile * sizes.entry <= limit;
  };
  RetentionPlan plan;
  const uint64_t behind = committed - versions.back();
  const size_t keep = std::max<size_t>(1, policy.keep_snapshots);
  size_t oldest = versions.size() > keep ? versions.size() - keep : 0;
  const bool due = behind >= policy.snapshot_every;
  while (oldest + 1 < versions.size() && !fits(versions[oldest], kEntriesMeanwhile)) ++oldest;
  plan.oldest = versions[oldest];
  plan.advance = due || (behind > 0 && !fits(plan.oldest, kEntriesMeanwhile));
  plan.drop_first =
      plan.advance && plan.oldest > versions.front() && !(due && fits(versions.front(), 1));
  return plan;
}

RetentionPass::RetentionPass(Files& files, std::string dir, const RetentionPolicy& policy,
                             uint64_t committed, std::optional<Digest> state)
    : files_(files), dir_(std::move(dir)), policy_(policy), committed_(committed), state_(state) {}

RetentionPass::~RetentionPass() = default;

absl::StatusOr<bool> RetentionPass::Step() {
  switch (phase_) {
    case Phase::kSurvey:
      RETURN_IF_ERROR(Survey());
      break;
    case Phase::kCheckNewest:
      RETURN_IF_ERROR(CheckNewest());
      break;
    case Phase::kBuild:
      RETURN_IF_ERROR(Build());
      break;
    case Phase::kFinished:
      break;
  }
  return phase_ == Phase::kFinished;
}

absl::Status RetentionPass::Survey() {
  ASSIGN_OR_RETURN(stored_, MeasureFiles(files_, dir_));
  absl::Status fault =
      absl::DataLossError(absl::StrCat(SnapshotsDirectory(dir_), ": no snapshot is left"));
  newest_ = nullptr;
  RETURN_IF_ERROR(OpenSnapshots(&fault));
  if (newest_ == nullptr) return Lost(BuildFault::kBase, fault);
  sizes_ = SizesOf(newest_->info(), stored_.snapshots.rbegin()->second);
  report_.limit = ByteLimit(policy_, sizes_);
  if (report_.limit != 0) {
    for (const auto& [version, bytes] : stored_.damaged) {
      RETURN_IF_ERROR(files_.Remove(DamagedSnapshotPath(dir_, version)));
    }
    stored_.damaged.clear();
  }
  report_.bytes = stored_.total();
  // One that is newer than the replica has just been fetched, and waits to be opened.
  if (policy_.snapshot_every == 0 || newest_->info().version() > committed_) return Finish();
  plan_ = PlanRetention(policy_, stored_, sizes_, committed_);
  return Decide();
}

// Keeps only the readable snapshots in stored_, and opens the newest of them.
absl::Status RetentionPass::OpenSnapshots(absl::Status* fault) {
  std::map<uint64_t, absl::Status> unreadable;
  std::vector<uint64_t> versions;
  for (const auto& [version, bytes] : stored_.snapshots) versions.push_back(version);
  for (const uint64_t version : versions) {
    absl::StatusOr<std::unique_ptr<SnapshotReader>> reader =
        SnapshotReader::OpenVersion(files_, dir_, version);
    if (reader.ok()) {
      newest_ = *std::move(reader);
      continue;
    }
    if (!absl::IsDataLoss(reader.status())) return reader.status();
    stored_.snapshots.erase(version);
    unreadable[version] = reader.status();
  }
  if (!unreadable.empty()) *fault = unreadable.rbegin()->second;
  if (newest_ == nullptr) return absl::OkStatus();
  for (const auto& [version, why] : unreadable) RETURN_IF_ERROR(PutAside(version, why));
  return absl::OkStatus();
}

absl::Status RetentionPass::Decide() {
  if (plan_.advance && !plan_.drop_first) return BeginBuild();
  const uint64_t front = stored_.snapshots.begin()->first;
  if (plan_.oldest == front) return Finish();
  if (verified_ != newest_->info().version()) {
    next_block_ = 0;
    phase_ = Phase::kCheckNewest;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(DropBefore(plan_.oldest));
  phase_ = Phase::kSurvey;
  return absl::OkStatus();
}

absl::Status RetentionPass::BeginBuild() {
  const uint64_t newest = newest_->info().version();
  const uint64_t limit = std::min(newest, newest_base_.value_or(newest));
  ASSIGN_OR_RETURN(std::unique_ptr<SnapshotReader> base, FindSnapshot(files_, dir_, limit));
  const uint64_t next = std::min(committed_, base->info().version() + kMaxTailEntries);
  // An older base may lead no further than the newest snapshot does already.
  if (next <= newest) return Finish();
  build_ =
      std::make_unique<SnapshotBuild>(files_, dir_, std::move(base), next, SnapshotPath(dir_, next),
                                      next == committed_ ? state_ : std::nullopt);
  phase_ = Phase::kBuild;
  return absl::OkStatus();
}

absl::Status RetentionPass::Build() {
  const absl::StatusOr<bool> done = build_->Step();
  if (done.ok()) {
    if (!*done) return absl::OkStatus();
    report_.made = build_->version();
    verified_ = build_->version();
    newest_base_.reset();
    build_ = nullptr;
    phase_ = Phase::kSurvey;
    return absl::OkStatus();
  }
  const uint64_t base = build_->base_version();
  const BuildFault fault = build_->fault();
  build_ = nullptr;
  if (absl::IsNotFound(done.status())) {
    return Lost(BuildFault::kLog, absl::DataLossError(done.status().message()));
  }
  // Without an older snapshot, or with a fault that an older one would meet too, this is the end.
  const bool older = base > stored_.snapshots.begin()->first;
  if (!older || (fault != BuildFault::kBase && fault != BuildFault::kState)) {
    return fault != BuildFault::kNone ? Lost(fault, done.status()) : done.status();
  }
  if (fault == BuildFault::kBase) {
    RETURN_IF_ERROR(PutAside(base, done.status()));
  } else {
    report_.faults.push_back(done.status());
    newest_base_ = base - 1;
  }
  phase_ = Phase::kSurvey;
  return absl::OkStatus();
}

// Reads the newest snapshot whole, before older ones are dropped for it.
absl::Status RetentionPass::CheckNewest() {
  const BlockMap& map = newest_->map();
  std::vector<uint8_t> bytes(kBlockBytes);
  const uint64_t end = std::min(map.blocks(), next_block_ + kSliceBlocks);
  for (; next_block_ < end; ++next_block_) {
    const absl::Status read =
        newest_->ReadBlock(next_block_, absl::MakeSpan(bytes).subspan(0, map.Bytes(next_block_)));
    if (absl::IsDataLoss(read)) {
      RETURN_IF_ERROR(PutAside(newest_->info().version(), read));
      phase_ = Phase::kSurvey;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(read);
  }
  if (next_block_ < map.blocks()) return absl::OkStatus();
  verified_ = newest_->info().version();
  return Decide();
}

// Renames a bad snapshot, so that an operator can examine it, or removes it if bytes are limited.
absl::Status RetentionPass::PutAside(uint64_t version, const absl::Status& why) {
  report_.faults.push_back(why);
  const std::string path = SnapshotPath(dir_, version);
  RETURN_IF_ERROR(policy_.keep_bytes == 0 ? files_.Rename(path, DamagedSnapshotPath(dir_, version))
                                          : files_.Remove(path));
  return files_.SyncDirectory(SnapshotsDirectory(dir_));
}

absl::Status RetentionPass::DropBefore(uint64_t oldest) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files_, dir_));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> damaged, ListDamagedSnapshots(files_, dir_));
  bool dropped = false;
  for (const uint64_t version : snapshots) {
    if (version >= oldest) break;
    RETURN_IF_ERROR(files_.Remove(SnapshotPath(dir_, version)));
    dropped = true;
  }
  for (const uint64_t version : damaged) {
    if (version < oldest) RETURN_IF_ERROR(files_.Remove(DamagedSnapshotPath(dir_, version)));
  }
  // A snapshot that came back after a crash without the entries after it would be of no use.
  if (dropped) RETURN_IF_ERROR(files_.SyncDirectory(SnapshotsDirectory(dir_)));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files_, dir_));
  for (const uint64_t version : payloads) {
    if (version <= oldest) RETURN_IF_ERROR(files_.Remove(PayloadPath(dir_, version)));
  }
  return absl::OkStatus();
}

// Checks that Replica::Open would reach the committed version again; payloads are read only when a
// snapshot includes them.
absl::Status RetentionPass::CheckTail() const {
  const uint64_t newest = stored_.snapshots.rbegin()->first;
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files_, dir_, newest + 1));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files_, dir_));
  for (uint64_t version = newest + 1; version <= committed_; ++version) {
    if (log.empty() || version < log.first_version() || version > log.last_version()) {
      return absl::DataLossError(
          absl::StrCat("entry ", version, ": ", HeadersPath(dir_), ": the header is missing"));
    }
    if (!std::binary_search(payloads.begin(), payloads.end(), version)) {
      return absl::DataLossError(absl::StrCat("entry ", version, ": ", PayloadPath(dir_, version),
                                              ": the payload is missing"));
    }
  }
  return absl::OkStatus();
}

absl::Status RetentionPass::Lost(BuildFault fault, const absl::Status& why) {
  report_.faults.push_back(why);
  report_.fatal = fault;
  return why;
}

absl::Status RetentionPass::Finish() {
  newest_ = nullptr;
  const absl::Status tail = CheckTail();
  if (absl::IsDataLoss(tail)) return Lost(BuildFault::kLog, tail);
  RETURN_IF_ERROR(tail);
  // What a crash kept of an earlier drop.
  RETURN_IF_ERROR(DropBefore(std::min(committed_, stored_.snapshots.begin()->first)));
  ASSIGN_OR_RETURN(const StoredFiles left, MeasureFiles(files_, dir_));
  report_.bytes = left.total();
  absl::StatusOr<v1::Offer> offer = OfferOf(files_, dir_, committed_);
  if (absl::IsDataLoss(offer.status())) return Lost(BuildFault::kLog, offer.status());
  ASSIGN_OR_RETURN(report_.offer, std::move(offer));
  phase_ = Phase::kFinished;
  return absl::OkStatus();
}

}  // namespace atolld
