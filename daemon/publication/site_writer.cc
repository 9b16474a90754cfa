#include "daemon/publication/site_writer.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/bitmap.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/publication/file_hash.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replay.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"
#include "membership/history/mean_records.h"

namespace atolld {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;
// About as much as page and story take: the page, and some kilobytes a peer.
constexpr uint64_t kPageBytes = uint64_t{256} << 10;

// One file of the site, while it is written.
class SiteFileWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SiteFileWriter>> Create(Files& files,
                                                                const std::string& folder,
                                                                absl::string_view name) {
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                     files.Create(absl::StrCat(folder, "/", name)));
    return std::unique_ptr<SiteFileWriter>(new SiteFileWriter(name, std::move(file)));
  }

  absl::Status Append(absl::Span<const uint8_t> bytes) {
    RETURN_IF_ERROR(file_->Append(bytes));
    hash_.Add(bytes);
    bytes_ += bytes.size();
    return absl::OkStatus();
  }

  uint64_t bytes() const { return bytes_; }

  absl::StatusOr<SiteFile> Finish() {
    RETURN_IF_ERROR(file_->Sync());
    return SiteFile{name_, bytes_, hash_.Finish()};
  }

 private:
  SiteFileWriter(absl::string_view name, std::unique_ptr<WritableFile> file)
      : name_(name), file_(std::move(file)) {}

  const std::string name_;
  const std::unique_ptr<WritableFile> file_;
  FileHash hash_;
  uint64_t bytes_ = 0;
};

bool HasLoneMean(const v1::EntryHeader& header) {
  return std::any_of(
      header.records().sets().begin(), header.records().sets().end(),
      [](const v1::ContributorSet& set) { return CountBits(set.contributors()) == 1; });
}

// What the replica's folder holds, while it is looked at.
struct ReplicaSource {
  std::string dir;
  v1::Genesis genesis;
  std::unique_ptr<SnapshotReader> base;
  std::optional<LogReader> log;
  std::optional<v1::Seal> seal;
  uint64_t version = 0;
  uint64_t first_header = 1;

  uint64_t base_version() const { return base->info().version(); }
};

absl::StatusOr<ReplicaSource> OpenSource(Files& files, const std::string& dir) {
  ReplicaSource source;
  source.dir = dir;
  ASSIGN_OR_RETURN(source.genesis, ReadGenesis(files, dir));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  if (snapshots.empty()) {
    return absl::DataLossError(absl::StrCat(SnapshotsDirectory(dir), ": no snapshot is left"));
  }
  ASSIGN_OR_RETURN(source.base, SnapshotReader::OpenVersion(files, dir, snapshots.front()));
  const v1::SnapshotInfo& info = source.base->info();
  if (GenesisDigest(info.genesis()) != GenesisDigest(source.genesis)) {
    return absl::DataLossError(
        absl::StrCat(SnapshotPath(dir, info.version()), ": its genesis is another one"));
  }
  const uint64_t base = source.base_version();
  ASSIGN_OR_RETURN(source.log, LogReader::Open(files, dir, base + 1));
  source.version = source.log->empty() ? base : source.log->last_version();
  source.first_header = source.log->empty() ? base + 1 : source.log->first_version();
  if (source.first_header > base + 1 || source.version < base) {
    return absl::DataLossError(absl::StrCat(HeadersPath(dir), ": it holds entries ",
                                            source.first_header, " to ", source.version,
                                            ", the snapshot is of version ", base));
  }
  v1::Seal seal;
  const absl::Status sealed = ReadMessageFile(files, SealPath(dir), &seal);
  if (sealed.ok() && seal.version() == source.version) source.seal = std::move(seal);
  if (!sealed.ok() && !absl::IsNotFound(sealed)) return sealed;
  return source;
}

// -----------------------------------------------------------------------------------------------

class SiteWriting {
 public:
  SiteWriting(Files& files, const PublishOrder& order, const OnPublished& progress,
              ReplicaSource source, uint64_t all_bytes)
      : files_(files),
        order_(order),
        progress_(progress),
        source_(std::move(source)),
        all_bytes_(all_bytes),
        story_(source_.first_header, source_.version + 1 - source_.first_header) {}

  ~SiteWriting() {
    if (own_.empty()) return;
    RemoveFolder(files_, folder_).IgnoreError();  // what led here is told
    files_.Remove(own_).IgnoreError();
  }

  absl::StatusOr<SiteIndex> Write() {
    RETURN_IF_ERROR(MakeFolder());
    FillIndex();
    RETURN_IF_ERROR(Copy(GenesisPath(source_.dir), kSiteGenesis));
    RETURN_IF_ERROR(WriteEntries());
    if (order_.parameters) {
      RETURN_IF_ERROR(Copy(SnapshotPath(source_.dir, source_.base_version()), kSiteState));
    }
    if (source_.seal) RETURN_IF_ERROR(WriteSeal());
    if (!order_.receipts.empty()) RETURN_IF_ERROR(WriteText(kSiteReceipts, order_.receipts));
    RETURN_IF_ERROR(WriteStory());
    const std::string text = absl::StrCat(SiteIndexJson(index_).dump(2), "\n");
    RETURN_IF_ERROR(
        WriteFileDurably(files_, absl::StrCat(folder_, "/", kSiteIndex), BytesOf(text)));
    RETURN_IF_ERROR(files_.SyncDirectory(folder_));
    RETURN_IF_ERROR(CheckFreePlace(files_, order_.out));  // others may have written there meanwhile
    if (files_.Exists(order_.out)) RETURN_IF_ERROR(files_.Remove(order_.out));
    RETURN_IF_ERROR(files_.Rename(folder_, order_.out));
    RETURN_IF_ERROR(files_.SyncDirectory(DirectoryOf(order_.out)));
    return index_;
  }

  static absl::Status RemoveFolder(Files& files, const std::string& folder) {
    if (!files.Exists(folder)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(files.Remove(absl::StrCat(folder, "/", name)));
    }
    return files.Remove(folder);
  }

 private:
  // Makes a folder that no other process writes to or has made, and the site's own in it: the
  // outer one is for its owner alone (mkdtemp), and a web server must be able to read the site.
  absl::Status MakeFolder() {
    RETURN_IF_ERROR(files_.MakeDirectories(DirectoryOf(order_.out)));
    std::string path = absl::StrCat(order_.out, ".partial-XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      return ErrnoStatus(errno, path, "cannot make a folder for a while");
    }
    own_ = path;
    folder_ = absl::StrCat(own_, "/site");
    return files_.MakeDirectories(folder_);
  }

  void FillIndex() {
    const v1::RunSpec& spec = source_.genesis.spec();
    index_.run_id = spec.run_id();
    index_.name = order_.name;
    index_.software = order_.software;
    index_.numerics = spec.numerics();
    index_.elements = source_.genesis.manifest().elements();
    index_.model = spec.model().kind();
    index_.codec = spec.exchange().upper_codec().empty() ? spec.exchange().codec()
                                                         : spec.exchange().upper_codec();
    index_.history_key = spec.history_key();
    index_.genesis_digest = GenesisDigest(source_.genesis);
    index_.version = source_.version;
    index_.first_header = source_.first_header;
    if (order_.parameters) index_.state_version = source_.base_version();
  }

  absl::Status Tell(uint64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, std::max(all_bytes_, done_));
    return absl::OkStatus();
  }

  absl::Status Copy(const std::string& path, absl::string_view name) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> from, files_.OpenToRead(path));
    ASSIGN_OR_RETURN(const std::unique_ptr<SiteFileWriter> to,
                     SiteFileWriter::Create(files_, folder_, name));
    std::vector<uint8_t> piece(kCopyBytes);
    for (uint64_t at = 0; at < from->size();) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(piece.size(), from->size() - at));
      const absl::Span<uint8_t> part = absl::MakeSpan(piece).subspan(0, count);
      RETURN_IF_ERROR(from->ReadAt(at, part));
      RETURN_IF_ERROR(to->Append(part));
      at += count;
      RETURN_IF_ERROR(Tell(count));
    }
    return Keep(*to);
  }

  absl::Status WriteText(absl::string_view name, absl::string_view text) {
    ASSIGN_OR_RETURN(const std::unique_ptr<SiteFileWriter> to,
                     SiteFileWriter::Create(files_, folder_, name));
    RETURN_IF_ERROR(to->Append(BytesOf(text)));
    return Keep(*to);
  }

  absl::Status Keep(SiteFileWriter& file) {
    ASSIGN_OR_RETURN(SiteFile kept, file.Finish());
    index_.files.push_back(std::move(kept));
    return absl::OkStatus();
  }

  absl::Status WriteEntries() {
    ASSIGN_OR_RETURN(const std::unique_ptr<SiteFileWriter> headers,
                     SiteFileWriter::Create(files_, folder_, kSiteHeaders));
    std::unique_ptr<SiteFileWriter> payloads;
    if (order_.parameters) {
      ASSIGN_OR_RETURN(payloads, SiteFileWriter::Create(files_, folder_, kSitePayloads));
    }
    std::vector<uint64_t> header_offsets = {0};
    std::vector<uint64_t> payload_offsets = {0};
    const Fragments fragments(source_.genesis.spec(), source_.genesis.manifest());
    for (uint64_t version = source_.first_header; version <= source_.version; ++version) {
      ASSIGN_OR_RETURN(const v1::EntryHeader header, NextHeader(version));
      RETURN_IF_ERROR(headers->Append(BytesOf(EncodeRecord(header.SerializeAsString()))));
      RETURN_IF_ERROR(Tell(headers->bytes() - header_offsets.back()));
      header_offsets.push_back(headers->bytes());
      if (order_.parameters && version > source_.base_version()) {
        RETURN_IF_ERROR(WritePayload(fragments, header, *payloads));
        payload_offsets.push_back(payloads->bytes());
      }
      story_.Add(header);
    }
    RETURN_IF_ERROR(Keep(*headers));
    RETURN_IF_ERROR(WriteText(kSiteHeaderOffsets, EncodeOffsets(header_offsets)));
    if (!order_.parameters) return absl::OkStatus();
    RETURN_IF_ERROR(Keep(*payloads));
    return WriteText(kSitePayloadOffsets, EncodeOffsets(payload_offsets));
  }

  // Reads a header and checks its place in the chain.
  absl::StatusOr<v1::EntryHeader> NextHeader(uint64_t version) {
    const std::string path = HeadersPath(source_.dir);
    ASSIGN_OR_RETURN(v1::EntryHeader header, source_.log->ReadHeader(version));
    if (version == source_.first_header) {
      previous_ = GenesisDigest(source_.genesis);
      if (version > 1) {
        const absl::StatusOr<Digest> claimed = DigestFromBytes(header.previous_header_digest());
        if (!claimed.ok()) return EntryFault(version, path, claimed.status().message());
        previous_ = *claimed;
      }
    }
    const v1::SnapshotInfo& info = source_.base->info();
    const bool follows = version == info.version() + 1 && info.has_header();
    if (follows && previous_ != HeaderDigest(info.header())) {
      return EntryFault(version, path, "it does not follow the header in the oldest snapshot");
    }
    const absl::Status chain = CheckHeader(source_.genesis, version - 1, previous_, header);
    if (!chain.ok()) return EntryFault(version, path, chain.message());
    previous_ = HeaderDigest(header);
    return header;
  }

  absl::Status WritePayload(const Fragments& fragments, const v1::EntryHeader& header,
                            SiteFileWriter& to) {
    const uint64_t version = header.version();
    const std::string path = PayloadPath(source_.dir, version);
    const absl::StatusOr<EntryStep> step = EntryStep::Make(fragments, header);
    if (!step.ok()) return EntryFault(version, HeadersPath(source_.dir), step.status().message());
    const absl::StatusOr<SharedBytes> payload =
        ReadPayload(files_, source_.dir, version, MaxPayloadBytes(step->grid(), step->codec()));
    if (absl::IsNotFound(payload.status())) {
      return EntryFault(version, path, "the payload is missing");
    }
    RETURN_IF_ERROR(payload.status());
    if (ToBytes(TreeDigest(payload->span())) != header.payload_digest()) {
      return EntryFault(version, path, "the payload's digest differs from the header's");
    }
    RETURN_IF_ERROR(to.Append(payload->span()));
    return Tell(payload->size());
  }

  absl::Status WriteStory() {
    if (story_.peers() > RunStory::kMostPeers) {
      return absl::InvalidArgumentError(absl::StrCat("the run has had ", story_.peers(),
                                                     " peers; a site can name at most ",
                                                     RunStory::kMostPeers));
    }
    const std::string story = story_.Text(source_.genesis, index_, order_.told);
    const std::string page = PageOf(story);
    if (page.size() > kLargestSiteText) {
      return absl::InvalidArgumentError(absl::StrCat("the page would have ", page.size(),
                                                     " bytes; at most ", kLargestSiteText,
                                                     " are possible"));
    }
    RETURN_IF_ERROR(WriteText(kSiteStory, story));
    return WriteText(kSitePage, page);
  }

  absl::Status WriteSeal() {
    const v1::Seal& seal = *source_.seal;
    const absl::Status vouched = CheckSigned(source_.genesis.spec(), seal);
    if (!vouched.ok()) {
      return EntryFault(source_.version, SealPath(source_.dir), vouched.message());
    }
    index_.sealed = true;
    ASSIGN_OR_RETURN(index_.state_digest, DigestFromBytes(seal.state_digest()));
    return WriteText(kSiteSeal, EncodeRecord(seal.SerializeAsString()));
  }

  Files& files_;
  const PublishOrder& order_;
  const OnPublished& progress_;
  std::string own_;     // the folder that this object has made
  std::string folder_;  // the site, in `own_`
  const ReplicaSource source_;
  const uint64_t all_bytes_;
  RunStory story_;
  SiteIndex index_;
  Digest previous_{};  // of the header before the next one
  uint64_t done_ = 0;
};

absl::StatusOr<SitePlan> Plan(Files& files, const PublishOrder& order,
                              const ReplicaSource& source) {
  SitePlan plan;
  plan.genesis = source.genesis;
  plan.version = source.version;
  plan.first_header = source.first_header;
  plan.base = source.base_version();
  plan.sealed = source.seal.has_value();
  plan.header_bytes = source.log->end();
  for (uint64_t version = plan.base + 1; version <= plan.version; ++version) {
    ASSIGN_OR_RETURN(const v1::EntryHeader header, source.log->ReadHeader(version));
    if (HasLoneMean(header)) ++plan.lone_means;
    if (!order.parameters) continue;
    const std::string path = PayloadPath(source.dir, version);
    const absl::StatusOr<std::unique_ptr<ReadableFile>> payload = files.OpenToRead(path);
    if (absl::IsNotFound(payload.status())) {
      return EntryFault(version, path, "the payload is missing");
    }
    RETURN_IF_ERROR(payload.status());
    plan.payload_bytes += (*payload)->size();
  }
  if (order.parameters) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> state,
                     files.OpenToRead(SnapshotPath(source.dir, plan.base)));
    plan.state_bytes = state->size();
  }
  return plan;
}

}  // namespace

uint64_t SitePlan::bytes() const {
  const uint64_t offsets = 2 * kSiteOffsetBytes * (version + 2 - std::min(first_header, base + 1));
  return header_bytes + state_bytes + payload_bytes + offsets + kPageBytes;
}

absl::Status CheckFreePlace(Files& files, const std::string& out) {
  if (!files.Exists(out)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(out));
  if (names.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(out, " holds ", names.front(),
                   "; name a new folder or an empty one, nothing is overwritten"));
}

absl::StatusOr<SitePlan> PlanSite(Files& files, const PublishOrder& order) {
  return Steadily(files, order.replica, [&]() -> absl::StatusOr<SitePlan> {
    ASSIGN_OR_RETURN(const ReplicaSource source, OpenSource(files, order.replica));
    return Plan(files, order, source);
  });
}

absl::StatusOr<SiteIndex> WriteSite(Files& files, const PublishOrder& order,
                                    const OnPublished& progress) {
  RETURN_IF_ERROR(CheckSiteName(order.name));
  if (order.receipts.size() > kLargestSiteReceipts) {
    return absl::InvalidArgumentError(absl::StrCat("the receipts have ", order.receipts.size(),
                                                   " bytes; at most ", kLargestSiteReceipts,
                                                   " are possible"));
  }
  RETURN_IF_ERROR(CheckFreePlace(files, order.out));
  return Steadily(files, order.replica, [&]() -> absl::StatusOr<SiteIndex> {
    ASSIGN_OR_RETURN(ReplicaSource source, OpenSource(files, order.replica));
    ASSIGN_OR_RETURN(const SitePlan plan, Plan(files, order, source));
    if (order.allow) RETURN_IF_ERROR(order.allow(plan));
    return SiteWriting(files, order, progress, std::move(source), plan.bytes()).Write();
  });
}

}  // namespace atolld
