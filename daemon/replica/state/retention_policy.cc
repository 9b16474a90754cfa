#include "daemon/replica/state/retention_policy.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/snapshot_build.h"
#include "membership/history/payload.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

// Entries for which there must be room at any time: the one that takes it up, and two that come
// while a snapshot is made.
constexpr uint64_t kEntriesMeanwhile = 3;

// Entries that the smallest limit lets gather before they have to go into a snapshot.
constexpr uint64_t kLeastTail = 2;

// With a limit, old headers get this share of it at most.
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

// What is left when everything before the snapshot `oldest` is gone.
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
  const ChunkGrid grid(elements, newest.genesis().spec().exchange().chunk_elements());
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

}  // namespace atolld
