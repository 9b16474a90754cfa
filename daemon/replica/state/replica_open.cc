// Replica::Open: from what lies on disk, after any crash, to the newest durable version.
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/replica_state.h"
#include "daemon/replica/state/state_digest.h"
#include "membership/history/header.h"
#include "membership/history/signature.h"

namespace atolld {
namespace {

// What was read back does not fit what this same replica once checked: whatever the check, the disk
// is at fault.
absl::Status AsDataLoss(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::DataLossError(absl::StrCat(context, ": ", status.message()));
}

// Fills the memory from one snapshot. DATA_LOSS: try an older one.
absl::StatusOr<v1::SnapshotInfo> LoadSnapshot(Files& files, const std::string& path,
                                              uint64_t version, const v1::Genesis& genesis,
                                              StateMemory* memory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> snapshot,
                   SnapshotReader::Open(files, path));
  const v1::SnapshotInfo& info = snapshot->info();
  if (info.version() != version || GenesisDigest(info.genesis()) != GenesisDigest(genesis)) {
    return absl::DataLossError(absl::StrCat(path, ": it is of version ", info.version(), " of run ",
                                            info.genesis().spec().run_id(),
                                            ", or of another genesis"));
  }
  RETURN_IF_ERROR(memory->Load(*snapshot));
  return info;
}

// Removes the snapshots from which the log does not lead on: left from before a newer one was
// fetched.
absl::Status RemoveUnlinkedSnapshots(Files& files, const std::string& dir, uint64_t loaded,
                                     const LogReader& log) {
  const uint64_t oldest = log.empty() ? loaded : log.first_version() - 1;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListSnapshots(files, dir));
  bool removed = false;
  for (const uint64_t version : versions) {
    if (version < oldest && version < loaded) {
      RETURN_IF_ERROR(files.Remove(SnapshotPath(dir, version)));
      removed = true;
    }
  }
  // One that came back after a crash would stand before a gap of the log.
  return removed ? files.SyncDirectory(SnapshotsDirectory(dir)) : absl::OkStatus();
}

}  // namespace

// Opening, step by step, on the state that is being made.
class Replica::State::Opening {
 public:
  explicit Opening(State* state) : state_(*state) {}

  absl::Status Run() {
    RETURN_IF_ERROR(LoadNewestSnapshot());
    ASSIGN_OR_RETURN(state_.log,
                     UpdateLog::Open(state_.files, state_.dir, state_.memory.version()));
    RETURN_IF_ERROR(RemoveUnlinkedSnapshots(state_.files, state_.dir, state_.memory.version(),
                                            state_.log->reader()));
    RETURN_IF_ERROR(CheckSnapshotAgainstLog());
    while (state_.memory.version() < state_.log->last_version()) RETURN_IF_ERROR(ReplayNext());
    RETURN_IF_ERROR(FindPrepared());
    return FindSeal();
  }

 private:
  // Corrupt ones are put aside under another name once an older one was read: never overwritten, no
  // longer in the way.
  absl::Status LoadNewestSnapshot() {
    RETURN_IF_ERROR(RemoveTemporaries(state_.files, SnapshotsDirectory(state_.dir)));
    ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListSnapshots(state_.files, state_.dir));
    absl::Status fault =
        absl::DataLossError(absl::StrCat(SnapshotsDirectory(state_.dir), ": no snapshot is left"));
    std::vector<std::string> corrupt;
    for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
      const std::string path = SnapshotPath(state_.dir, *it);
      absl::StatusOr<v1::SnapshotInfo> info =
          LoadSnapshot(state_.files, path, *it, state_.genesis, &state_.memory);
      if (info.ok()) {
        for (const std::string& bad : corrupt) {
          RETURN_IF_ERROR(state_.files.Rename(bad, absl::StrCat(bad, ".corrupt")));
        }
        return TakeOver(*info);
      }
      if (!absl::IsDataLoss(info.status())) return info.status();
      if (corrupt.empty()) fault = info.status();
      corrupt.push_back(path);
    }
    return fault;
  }

  absl::Status TakeOver(const v1::SnapshotInfo& info) {
    ASSIGN_OR_RETURN(state_.state_digest, DigestFromBytes(info.state_digest()));
    if (info.has_header()) {
      state_.header = info.header();
      state_.header_digest = HeaderDigest(info.header());
    }
    return absl::OkStatus();
  }

  absl::Status CheckSnapshotAgainstLog() {
    const LogReader& log = state_.log->reader();
    const uint64_t version = state_.memory.version();
    if (version == 0 || log.empty() || log.first_version() > version) return absl::OkStatus();
    ASSIGN_OR_RETURN(const v1::EntryHeader header, log.ReadHeader(version));
    if (HeaderDigest(header) == state_.header_digest) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("entry ", version, ": ", HeadersPath(state_.dir),
                                            ": its header is not the one in ",
                                            SnapshotPath(state_.dir, version)));
  }

  absl::Status ReplayNext() {
    const uint64_t next = state_.memory.version() + 1;
    const std::string context = absl::StrCat("entry ", next);
    ASSIGN_OR_RETURN(const v1::EntryHeader header, state_.log->reader().ReadHeader(next));
    RETURN_IF_ERROR(
        AsDataLoss(CheckHeader(state_.genesis, next - 1, state_.header_digest, header), "log"));
    // One hash at the end vouches for every state before it.
    if (next == state_.log->last_version() || state_.state_digest.has_value()) {
      RETURN_IF_ERROR(CheckState(header));
    }
    absl::StatusOr<SharedBytes> payload =
        ReadPayload(state_.files, state_.dir, next, state_.payload_limit());
    if (absl::IsNotFound(payload.status())) return AsDataLoss(payload.status(), "log");
    RETURN_IF_ERROR(payload.status());
    const std::string path = PayloadPath(state_.dir, next);
    if (ToBytes(TreeDigest(payload->span())) != header.payload_digest()) {
      return absl::DataLossError(
          absl::StrCat(context, ": payload ", path, ": its digest differs from the header's"));
    }
    RETURN_IF_ERROR(AsDataLoss(CheckPayload(state_.grid, *state_.codec, *payload),
                               absl::StrCat(context, ": payload ", path)));
    const absl::StatusOr<EntryStep> step = EntryStep::Make(header);
    RETURN_IF_ERROR(AsDataLoss(step.status(), "log"));
    state_.Apply(*step, header, *payload, {});
    return absl::OkStatus();
  }

  absl::Status CheckState(const v1::EntryHeader& next) {
    const Digest digest =
        state_.state_digest.has_value() ? *state_.state_digest : state_.memory.StateDigest();
    if (ToBytes(digest) == next.previous_state_digest()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        "entry ", next.version(), ": the replayed state of version ", next.version() - 1,
        " has digest ", ToHex(digest), ", not the one that the header says"));
  }

  // A payload that cannot be used is as good as none: the vote for it can be given again.
  absl::Status FindPrepared() {
    const uint64_t next = state_.memory.version() + 1;
    absl::StatusOr<SharedBytes> payload =
        ReadPayload(state_.files, state_.dir, next, state_.payload_limit());
    if (absl::IsNotFound(payload.status()) || absl::IsDataLoss(payload.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(payload.status());
    if (!CheckPayload(state_.grid, *state_.codec, *payload).ok()) return absl::OkStatus();
    state_.prepared_digest = TreeDigest(payload->span());
    state_.prepared = *std::move(payload);
    return absl::OkStatus();
  }

  absl::Status FindSeal() {
    const std::string path = SealPath(state_.dir);
    v1::Seal seal;
    const absl::Status status = ReadMessageFile(state_.files, path, &seal);
    if (absl::IsNotFound(status)) return absl::OkStatus();
    RETURN_IF_ERROR(status);
    if (seal.version() != state_.memory.version() ||
        seal.header_digest() != ToBytes(state_.header_digest)) {
      return absl::DataLossError(absl::StrCat(path, ": it closes the run at version ",
                                              seal.version(), ", the log leads to version ",
                                              state_.memory.version(), " or another header"));
    }
    RETURN_IF_ERROR(AsDataLoss(CheckSigned(state_.genesis.spec(), seal), path));
    state_.seal = seal;
    return absl::OkStatus();
  }

  State& state_;
};

absl::StatusOr<std::unique_ptr<Replica>> Replica::Open(Files& files, const std::string& dir,
                                                       const PlaceTheta& place_theta) {
  v1::Genesis genesis;
  RETURN_IF_ERROR(ReadMessageFile(files, GenesisPath(dir), &genesis));
  RETURN_IF_ERROR(AsDataLoss(CheckGenesis(genesis), GenesisPath(dir)));
  ASSIGN_OR_RETURN(const absl::Span<float> theta, place_theta(genesis.manifest().elements()));
  CHECK(theta.size() == genesis.manifest().elements());
  auto state = std::make_unique<State>(files, dir, std::move(genesis), theta);
  RETURN_IF_ERROR(State::Opening(state.get()).Run());
  return std::unique_ptr<Replica>(new Replica(std::move(state)));
}

}  // namespace atolld
