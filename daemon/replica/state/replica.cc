#include "daemon/replica/state/replica.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replica_state.h"
#include "daemon/replica/state/state_digest.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"
#include "membership/history/signature.h"

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

}  // namespace

Replica::State::State(Files& files_in, std::string dir_in, v1::Genesis genesis_in,
                      absl::Span<float> theta)
    : files(files_in),
      dir(std::move(dir_in)),
      genesis(std::move(genesis_in)),
      grid(genesis.manifest().elements(), genesis.spec().exchange().chunk_elements()),
      codec(&PayloadCodec(genesis.spec().exchange())),
      memory(genesis, theta),
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

Replica::Replica(std::unique_ptr<State> state) : state_(std::move(state)) {}
Replica::~Replica() = default;

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(Files& files, const std::string& dir,
                                                         v1::Genesis genesis,
                                                         absl::Span<float> theta) {
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
  const StateMemory memory(genesis, theta);
  v1::SnapshotInfo info = memory.Describe();
  genesis.set_state_digest(info.state_digest());
  *info.mutable_genesis() = genesis;
  RETURN_IF_ERROR(memory.Write(files, SnapshotPath(dir, 0), std::move(info)));
  ASSIGN_OR_RETURN(std::unique_ptr<UpdateLog> log, UpdateLog::Open(files, dir, 0));
  RETURN_IF_ERROR(files.SyncDirectory(dir));
  // The genesis comes last: where it stands, the replica is whole.
  RETURN_IF_ERROR(WriteMessageFile(files, GenesisPath(dir), genesis));
  auto state = std::make_unique<State>(files, dir, std::move(genesis), theta);
  ASSIGN_OR_RETURN(state->state_digest, DigestFromBytes(state->genesis.state_digest()));
  state->log = std::move(log);
  return std::unique_ptr<Replica>(new Replica(std::move(state)));
}

const v1::Genesis& Replica::genesis() const { return state_->genesis; }
const ChunkGrid& Replica::grid() const { return state_->grid; }
uint64_t Replica::version() const { return state_->memory.version(); }
Digest Replica::header_digest() const { return state_->header_digest; }
const v1::EntryHeader* Replica::header() const {
  return state_->header.has_value() ? &*state_->header : nullptr;
}
absl::Span<const float> Replica::theta() const { return state_->memory.theta(); }
std::optional<v1::Seal> Replica::seal() const { return state_->seal; }
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
  RETURN_IF_ERROR(Annotate(CheckPayload(state_->grid, *state_->codec, payload), context));
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
  ASSIGN_OR_RETURN(const EntryStep step, EntryStep::Make(header));
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
                   ReadPayload(state_->files, state_->dir, version, state_->payload_limit()));
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

}  // namespace atolld
