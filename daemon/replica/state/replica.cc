#include "daemon/replica/state/replica.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replay.h"
#include "daemon/replica/state/retention_pass.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/state_memory.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

absl::Status CheckFinite(const v1::Manifest& manifest, absl::Span<const float> theta) {
  const size_t bad = FirstNonFinite(theta);
  if (bad == theta.size()) return absl::OkStatus();
  std::string name;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    if (tensor.offset() <= bad) name = tensor.name();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", name, ": value ", bad, " of the flat vector is not finite"));
}

// Makes an error DATA_LOSS: data that was read back does not fit what this replica once checked, so
// the disk is at fault, whatever the check.
absl::Status AsDataLoss(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::DataLossError(absl::StrCat(context, ": ", status.message()));
}

// Fills the memory from one snapshot. After DATA_LOSS an older one may be tried.
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

// Removes the snapshots from which the log does not continue; they are left from before a newer one
// was fetched.
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

// The data that a Replica holds in memory.
struct Replica::State {
  class Opening;

  State(Files& files_in, std::string dir_in, v1::Genesis genesis_in, absl::Span<float> theta,
        StateMemory::Buffers buffers);

  // Constant after construction (log: after Create or Open).
  Files& files;
  const std::string dir;
  const v1::Genesis genesis;
  const Fragments fragments;
  const Codec* const codec;  // of payloads
  std::unique_ptr<UpdateLog> log;

  // The state and what names it.
  StateMemory memory;
  std::optional<v1::EntryHeader> header;
  Digest header_digest;
  std::optional<Digest> state_digest;
  std::optional<v1::Seal> seal;

  // The payload of the next version, durable and known to decode.
  std::optional<Digest> prepared_digest;
  SharedBytes prepared;

  ChunkGrid GridOf(uint64_t version) const {  // of the vector of that entry
    return fragments.Grid(version, genesis.spec().exchange().chunk_elements());
  }
  uint64_t PayloadLimit(uint64_t version) const { return MaxPayloadBytes(GridOf(version), *codec); }

  // Moves the memory by an entry that is durable, and forgets what was prepared.
  void Apply(const EntryStep& step, const v1::EntryHeader& next, const SharedBytes& payload,
             absl::Span<float> difference);
};

Replica::State::State(Files& files_in, std::string dir_in, v1::Genesis genesis_in,
                      absl::Span<float> theta, StateMemory::Buffers buffers)
    : files(files_in),
      dir(std::move(dir_in)),
      genesis(std::move(genesis_in)),
      fragments(genesis.spec(), genesis.manifest()),
      codec(&PayloadCodec(genesis.spec().exchange())),
      memory(genesis, theta, std::move(buffers)),
      header_digest(GenesisDigest(genesis)) {}

void Replica::State::Apply(const EntryStep& step, const v1::EntryHeader& next,
                           const SharedBytes& payload, absl::Span<float> difference) {
  memory.Step(step, payload, difference);
  header = next;
  header_digest = HeaderDigest(next);
  state_digest.reset();
  prepared_digest.reset();
  prepared = SharedBytes();
}

// Brings the state from the files on disk, after any crash, to the newest durable version, step by
// step.
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
        ReadPayload(state_.files, state_.dir, next, state_.PayloadLimit(next));
    if (absl::IsNotFound(payload.status())) return AsDataLoss(payload.status(), "log");
    RETURN_IF_ERROR(payload.status());
    const std::string path = PayloadPath(state_.dir, next);
    if (ToBytes(TreeDigest(payload->span())) != header.payload_digest()) {
      return absl::DataLossError(
          absl::StrCat(context, ": payload ", path, ": its digest differs from the header's"));
    }
    RETURN_IF_ERROR(AsDataLoss(CheckPayload(state_.GridOf(next), *state_.codec, *payload),
                               absl::StrCat(context, ": payload ", path)));
    const absl::StatusOr<EntryStep> step = EntryStep::Make(state_.fragments, header);
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
        ReadPayload(state_.files, state_.dir, next, state_.PayloadLimit(next));
    if (absl::IsNotFound(payload.status()) || absl::IsDataLoss(payload.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(payload.status());
    if (!CheckPayload(state_.GridOf(next), *state_.codec, *payload).ok()) return absl::OkStatus();
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

Replica::Replica(std::unique_ptr<State> state) : state_(std::move(state)) {}
Replica::~Replica() = default;

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(Files& files, const std::string& dir,
                                                         v1::Genesis genesis,
                                                         absl::Span<float> theta,
                                                         const std::string& buffer_folder) {
  if (files.Exists(GenesisPath(dir))) {
    return absl::FailedPreconditionError(absl::StrCat(dir, ": it holds a replica already"));
  }
  genesis.clear_state_digest();
  RETURN_IF_ERROR(Annotate(CheckGenesis(genesis), "genesis"));
  if (theta.size() != genesis.manifest().elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(theta.size(), " values for a manifest of ", genesis.manifest().elements()));
  }
  RETURN_IF_ERROR(CheckFinite(genesis.manifest(), theta));
  RETURN_IF_ERROR(files.MakeDirectories(SnapshotsDirectory(dir)));
  {
    // Its buffers are given back before others are made: on a disk each takes its room.
    ASSIGN_OR_RETURN(StateMemory::Buffers buffers,
                     StateMemory::MakeBuffers(genesis, buffer_folder));
    const StateMemory memory(genesis, theta, std::move(buffers));
    v1::SnapshotInfo info = memory.Describe();
    genesis.set_state_digest(info.state_digest());
    *info.mutable_genesis() = genesis;
    RETURN_IF_ERROR(memory.Write(files, SnapshotPath(dir, 0), std::move(info)));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<UpdateLog> log, UpdateLog::Open(files, dir, 0));
  RETURN_IF_ERROR(files.SyncDirectory(dir));
  // The genesis comes last: where it stands, the replica is whole.
  RETURN_IF_ERROR(WriteMessageFile(files, GenesisPath(dir), genesis));
  ASSIGN_OR_RETURN(StateMemory::Buffers buffers, StateMemory::MakeBuffers(genesis, buffer_folder));
  auto state = std::make_unique<State>(files, dir, std::move(genesis), theta, std::move(buffers));
  ASSIGN_OR_RETURN(state->state_digest, DigestFromBytes(state->genesis.state_digest()));
  state->log = std::move(log);
  return std::unique_ptr<Replica>(new Replica(std::move(state)));
}

absl::StatusOr<std::unique_ptr<Replica>> Replica::Open(Files& files, const std::string& dir,
                                                       const PlaceTheta& place_theta,
                                                       const std::string& buffer_folder) {
  ASSIGN_OR_RETURN(v1::Genesis genesis, ReadGenesis(files, dir));
  ASSIGN_OR_RETURN(const absl::Span<float> theta, place_theta(genesis.manifest().elements()));
  CHECK(theta.size() == genesis.manifest().elements());
  ASSIGN_OR_RETURN(StateMemory::Buffers buffers, StateMemory::MakeBuffers(genesis, buffer_folder));
  auto state = std::make_unique<State>(files, dir, std::move(genesis), theta, std::move(buffers));
  RETURN_IF_ERROR(State::Opening(state.get()).Run());
  return std::unique_ptr<Replica>(new Replica(std::move(state)));
}

const v1::Genesis& Replica::genesis() const { return state_->genesis; }
ChunkGrid Replica::grid() const { return state_->GridOf(version() + 1); }
const Fragments& Replica::fragments() const { return state_->fragments; }
uint64_t Replica::version() const { return state_->memory.version(); }
Digest Replica::header_digest() const { return state_->header_digest; }
const v1::EntryHeader* Replica::header() const {
  return state_->header.has_value() ? &*state_->header : nullptr;
}
absl::Span<const float> Replica::theta() const { return state_->memory.theta(); }
absl::Span<const float> Replica::buffer(size_t index) const {
  return state_->memory.Buffer(static_cast<int>(index) + 1);
}
absl::Span<const float> Replica::control() const { return state_->memory.Control(); }
std::optional<v1::Seal> Replica::seal() const { return state_->seal; }
void Replica::Release() const { state_->memory.Release(); }
std::optional<Digest> Replica::prepared_digest() const { return state_->prepared_digest; }

Digest Replica::StateDigest() {
  if (!state_->state_digest.has_value()) state_->state_digest = state_->memory.StateDigest();
  return *state_->state_digest;
}

absl::Status Replica::Prepare(const SharedBytes& payload) {
  const uint64_t next = version() + 1;
  const std::string context = absl::StrCat("entry ", next, ": payload");
  if (state_->seal.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(context, ": the run is sealed"));
  }
  const Digest digest = TreeDigest(payload.span());
  if (state_->prepared_digest == digest) return absl::OkStatus();
  RETURN_IF_ERROR(Annotate(CheckPayload(grid(), *state_->codec, payload), context));
  RETURN_IF_ERROR(state_->log->WritePayload(next, payload));
  state_->prepared_digest = digest;
  state_->prepared = payload;
  return absl::OkStatus();
}

absl::Status Replica::CheckSuccessor(const v1::EntryHeader& header) {
  RETURN_IF_ERROR(CheckHeader(state_->genesis, version(), state_->header_digest, header));
  ASSIGN_OR_RETURN(const Digest expected, DigestFromBytes(header.previous_state_digest()));
  if (expected == StateDigest()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("entry ", header.version(), ": the state of version ", version(), " has digest ",
                   ToHex(StateDigest()), " here, the header says ", ToHex(expected)));
}

absl::Status Replica::Commit(const v1::EntryHeader& header, const SharedBytes* payload,
                             absl::Span<float> difference) {
  const std::string context = absl::StrCat("entry ", header.version());
  if (state_->seal.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(context, ": the run is sealed"));
  }
  if (!Planted(PlantedBug::kHeaderChainNotChecked)) RETURN_IF_ERROR(CheckSuccessor(header));
  ASSIGN_OR_RETURN(const EntryStep step, EntryStep::Make(state_->fragments, header));
  ASSIGN_OR_RETURN(const Digest wanted, DigestFromBytes(header.payload_digest()));
  if (state_->prepared_digest != wanted) {
    if (payload == nullptr || TreeDigest(payload->span()) != wanted) {
      return absl::NotFoundError(
          absl::StrCat(context, ": payload ", ToHex(wanted), " is not here"));
    }
    RETURN_IF_ERROR(Prepare(*payload));
  }
  RETURN_IF_ERROR(state_->log->AppendHeader(header));
  const SharedBytes prepared = state_->prepared;
  state_->Apply(step, header, prepared, difference);
  return absl::OkStatus();
}

absl::Status Replica::WriteSeal(const v1::Seal& seal) {
  if (seal.run_id() != state_->genesis.spec().run_id()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "seal: it is of run ", seal.run_id(), ", not of ", state_->genesis.spec().run_id()));
  }
  if (seal.version() != version()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "seal: it closes the run at version ", seal.version(), ", this is version ", version()));
  }
  if (seal.header_digest() != ToBytes(state_->header_digest)) {
    return absl::FailedPreconditionError(absl::StrCat("seal: the header of version ", version(),
                                                      " has another digest here, ",
                                                      ToHex(state_->header_digest)));
  }
  if (seal.state_digest() != ToBytes(StateDigest())) {
    return absl::FailedPreconditionError(absl::StrCat("seal: the state of version ", version(),
                                                      " has another digest here, ",
                                                      ToHex(StateDigest())));
  }
  RETURN_IF_ERROR(CheckSigned(state_->genesis.spec(), seal));
  RETURN_IF_ERROR(Annotate(WriteMessageFile(state_->files, SealPath(state_->dir), seal), "seal"));
  state_->seal = seal;
  return absl::OkStatus();
}

absl::StatusOr<Digest> Replica::HeaderDigestOf(uint64_t version) const {
  if (version == 0) return GenesisDigest(state_->genesis);
  if (version == this->version()) return state_->header_digest;
  ASSIGN_OR_RETURN(const v1::EntryHeader header, state_->log->reader().ReadHeader(version));
  return HeaderDigest(header);
}

absl::StatusOr<Entry> Replica::ReadEntry(uint64_t version) const {
  if (version == 0 || version > this->version()) {
    return absl::NotFoundError(absl::StrCat("entry ", version, ": not committed here"));
  }
  Entry entry;
  ASSIGN_OR_RETURN(entry.header, state_->log->reader().ReadHeader(version));
  ASSIGN_OR_RETURN(entry.payload,
                   ReadPayload(state_->files, state_->dir, version, state_->PayloadLimit(version)));
  if (ToBytes(TreeDigest(entry.payload.span())) != entry.header.payload_digest()) {
    return absl::DataLossError(absl::StrCat("entry ", version, ": payload ",
                                            PayloadPath(state_->dir, version),
                                            ": its digest differs from the header's"));
  }
  return entry;
}

uint64_t Replica::oldest_entry() const {
  const LogReader& log = state_->log->reader();
  const absl::StatusOr<std::vector<uint64_t>> payloads = ListPayloads(state_->files, state_->dir);
  if (payloads.ok() && !log.empty()) {
    for (const uint64_t version : *payloads) {
      if (version >= log.first_version() && version <= this->version()) return version;
    }
  }
  return version() + 1;
}

absl::Status Replica::AdvanceSnapshots(Files& files, const std::string& dir,
                                       const RetentionPolicy& policy, uint64_t committed_version,
                                       std::optional<Digest> state) {
  RetentionPass pass(files, dir, policy, committed_version, state);
  while (true) {
    ASSIGN_OR_RETURN(const bool over, pass.Step());
    if (over) return absl::OkStatus();
  }
}

absl::Status Replica::CompactLog(uint64_t allowance) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots,
                   ListSnapshots(state_->files, state_->dir));
  if (snapshots.empty()) return absl::OkStatus();
  // A snapshot that came back after a crash needs the headers after it.
  RETURN_IF_ERROR(state_->files.SyncDirectory(SnapshotsDirectory(state_->dir)));
  return state_->log->DropHeadersBefore(snapshots.front() + 1, allowance);
}

absl::Status Replica::SaveState() {
  Files& files = state_->files;
  const std::string& dir = state_->dir;
  v1::SnapshotInfo info = state_->memory.Describe();
  if (info.state_digest() != ToBytes(StateDigest())) {
    return absl::DataLossError(absl::StrCat("version ", version(),
                                            ": the state in memory no longer has the digest ",
                                            ToHex(StateDigest())));
  }
  *info.mutable_genesis() = state_->genesis;
  if (state_->header.has_value()) *info.mutable_header() = *state_->header;
  RETURN_IF_ERROR(state_->memory.Write(files, SnapshotPath(dir, version()), std::move(info)));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, ListSnapshots(files, dir));
  for (const uint64_t older : snapshots) {
    if (older < version()) RETURN_IF_ERROR(files.Remove(SnapshotPath(dir, older)));
  }
  RETURN_IF_ERROR(files.SyncDirectory(SnapshotsDirectory(dir)));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  for (const uint64_t older : payloads) {
    if (older <= version()) RETURN_IF_ERROR(files.Remove(PayloadPath(dir, older)));
  }
  return state_->log->DropHeadersBefore(version() + 1, 0);
}

}  // namespace atolld
