#include "tests/sim/crash_invariants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

bool IsWhole(Files& files, const std::string& path) {
  const auto snapshot = SnapshotReader::Open(files, path);
  if (!snapshot.ok()) return false;
  std::vector<uint8_t> bytes(kBlockBytes);
  for (uint64_t block = 0; block < (*snapshot)->map().blocks(); ++block) {
    const absl::Span<uint8_t> part =
        absl::MakeSpan(bytes).subspan(0, (*snapshot)->map().Bytes(block));
    if (!(*snapshot)->ReadBlock(block, part).ok()) return false;
  }
  return true;
}

// Returns true if the state of that version can be restored from this disk: its payload is there,
// or a snapshot that includes it.
bool Holds(Files& files, const std::string& dir, const v1::EntryHeader& header) {
  const auto payload = PayloadCheck::Open(files, dir, header);
  if (payload.ok()) {
    absl::StatusOr<bool> whole = (*payload)->Step();
    while (whole.ok() && !*whole) whole = (*payload)->Step();
    if (whole.ok()) return true;
  }
  const auto snapshots = ListSnapshots(files, dir);
  if (!snapshots.ok()) return false;
  return std::any_of(snapshots->begin(), snapshots->end(), [&](uint64_t version) {
    return version >= header.version() && IsWhole(files, SnapshotPath(dir, version));
  });
}

}  // namespace

void CrashInvariants::OnFrame(const std::string& peer, const Frame& frame) {
  v1::PeerMessage message;
  if (!Unpack(frame, &message).ok()) return Fault(absl::StrCat(peer, " sent what is no message"));
  if (message.hello().has_state()) OnVersion(peer, message.hello().version());
  if (message.has_synced()) OnVersion(peer, message.synced().version());
  if (message.has_state_report()) {
    OnDigest(peer, message.state_report().version(), message.state_report().state_digest());
  }
}

void CrashInvariants::OnVersion(const std::string& peer, uint64_t version) {
  uint64_t& newest = said_[peer];
  if (version < newest) {
    Fault(absl::StrCat(peer, " held version ", newest, ", and then version ", version));
  }
  newest = std::max(newest, version);
}

void CrashInvariants::OnDigest(const std::string& peer, uint64_t version,
                               const std::string& digest) {
  const auto [known, first] = digests_.emplace(version, digest);
  if (!first && known->second != digest) {
    Fault(absl::StrCat(peer, " has version ", version, " with digest ",
                       absl::BytesToHexString(digest), ", others with ",
                       absl::BytesToHexString(known->second)));
  }
}

void CrashInvariants::CheckDurable(SimCluster& cluster) {
  const std::vector<v1::EntryHeader>& headers = cluster.stored().headers;
  if (headers.size() < promised_.size()) {
    Fault(absl::StrCat("the store had ", promised_.size(), " versions, now ", headers.size()));
  }
  for (size_t i = 0; i < headers.size(); ++i) {
    const std::string digest = ToBytes(HeaderDigest(headers[i]));
    if (i >= promised_.size()) promised_.push_back(digest);
    if (promised_[i] != digest) {
      Fault(absl::StrCat("version ", i + 1, " has another header than was announced"));
    }
    uint32_t holders = 0;
    for (const std::string& peer : cluster.PeersStarted()) {
      SimFiles files(cluster.world().disk(peer));
      holders += Holds(files, "/" + peer, headers[i]) ? 1 : 0;
    }
    if (holders < quorum_) {
      Fault(absl::StrCat("announced version ", i + 1, " is on ", holders, " disks; a quorum of ",
                         quorum_, " has voted for it"));
    }
  }
}

void CrashInvariants::CheckEnd(SimCluster& cluster, const std::set<std::string>& away,
                               uint64_t rounds) {
  CheckDurable(cluster);
  if (cluster.version() != rounds) {
    Fault(absl::StrCat("sealed at version ", cluster.version(), " of ", rounds));
  }
  for (const std::string& peer : cluster.PeersStarted()) {
    CheckDisk(cluster, peer, away.count(peer) != 0, rounds);
    CheckHistory(cluster, peer);
  }
  CheckSamples(cluster.stored());
}

void CrashInvariants::CheckDisk(SimCluster& cluster, const std::string& peer, bool away,
                                uint64_t rounds) {
  const absl::StatusOr<VerifyReport> report = cluster.Verify(peer);
  if (away && absl::IsNotFound(report.status())) return;  // it never got so far as to hold a state
  if (!report.ok()) return Fault(absl::StrCat(peer, ": ", report.status().ToString()));
  OnVersion(peer, report->version);
  OnDigest(peer, report->version, ToBytes(report->state_digest));
  if (!away && (report->version != rounds || !report->sealed)) {
    Fault(absl::StrCat(peer, " ends at version ", report->version,
                       report->sealed ? "" : " without a seal"));
  }
}

void CrashInvariants::CheckHistory(SimCluster& cluster, const std::string& peer) {
  SimFiles files(cluster.world().disk(peer));
  const auto entries = ListLog(files, "/" + peer);
  if (absl::IsNotFound(entries.status())) return;  // without a state
  if (!entries.ok()) return Fault(absl::StrCat(peer, ": ", entries.status().ToString()));
  for (const LogEntryInfo& entry : *entries) {
    const size_t i = entry.header.version() - 1;
    if (i >= promised_.size() || ToBytes(HeaderDigest(entry.header)) != promised_[i]) {
      Fault(absl::StrCat(peer, " has a header of version ", i + 1, " that was never announced"));
    }
  }
}

void CrashInvariants::CheckSamples(const StoredRun& run) {
  std::map<uint64_t, uint64_t> spent;  // first: end
  for (const v1::EntryHeader& header : run.headers) {
    for (const v1::Contributor& contributor : header.contributors()) {
      for (const v1::SampleRange& range : contributor.samples()) {
        const uint64_t end = range.first() + range.count();
        const auto next = spent.lower_bound(range.first());
        const bool above = next != spent.end() && next->first < end;
        const bool below = next != spent.begin() && std::prev(next)->second > range.first();
        if (above || below) {
          Fault(absl::StrCat("version ", header.version(), ": ", contributor.peer(),
                             " spends samples ", range.first(), " to ", end,
                             ", of which some were spent before"));
        }
        spent[range.first()] = std::max(spent[range.first()], end);
      }
    }
  }
}

}  // namespace atolld
