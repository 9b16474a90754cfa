#include "daemon/replica/state/replay.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "membership/history/header.h"

namespace atolld {

absl::StatusOr<v1::Genesis> ReadGenesis(Files& files, const std::string& dir) {
  v1::Genesis genesis;
  RETURN_IF_ERROR(ReadMessageFile(files, GenesisPath(dir), &genesis));
  const absl::Status status = CheckGenesis(genesis);
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat(GenesisPath(dir), ": ", status.message()));
  }
  return genesis;
}

absl::Status EntryFault(uint64_t version, absl::string_view path, absl::string_view what) {
  const std::string context = absl::StrCat("entry ", version, ": ");
  absl::ConsumePrefix(&what, context);
  return absl::DataLossError(absl::StrCat(context, path, ": ", what));
}

LogReplay::LogReplay(Files& files, std::string dir, v1::Genesis genesis,
                     StateMemory::Buffers buffers)
    : files_(files),
      dir_(std::move(dir)),
      genesis_(std::move(genesis)),
      fragments_(genesis_.spec(), genesis_.manifest()),
      theta_(genesis_.manifest().elements()),
      memory_(genesis_, absl::MakeSpan(theta_), std::move(buffers)) {}

absl::StatusOr<std::unique_ptr<LogReplay>> LogReplay::Open(Files& files, const std::string& dir,
                                                           std::unique_ptr<SnapshotReader> base) {
  ASSIGN_OR_RETURN(v1::Genesis genesis, ReadGenesis(files, dir));
  ASSIGN_OR_RETURN(StateMemory::Buffers buffers, StateMemory::MakeBuffers(genesis, ""));
  std::unique_ptr<LogReplay> replay(
      new LogReplay(files, dir, std::move(genesis), std::move(buffers)));
  RETURN_IF_ERROR(replay->TakeOver(*base));
  return replay;
}

absl::Status LogReplay::TakeOver(const SnapshotReader& base) {
  const v1::SnapshotInfo& info = base.info();
  if (GenesisDigest(info.genesis()) != GenesisDigest(genesis_)) {
    return absl::DataLossError(
        absl::StrCat(SnapshotPath(dir_, info.version()), ": its genesis is another one"));
  }
  RETURN_IF_ERROR(memory_.Load(base));
  ASSIGN_OR_RETURN(state_digest_, DigestFromBytes(info.state_digest()));
  header_digest_ = info.has_header() ? HeaderDigest(info.header()) : GenesisDigest(genesis_);
  ASSIGN_OR_RETURN(log_, LogReader::Open(files_, dir_, version() + 1));
  last_ = log_->empty() ? version() : log_->last_version();
  if (!log_->empty() && (log_->first_version() > version() + 1 || last_ < version())) {
    return absl::DataLossError(absl::StrCat(HeadersPath(dir_), ": it holds entries ",
                                            log_->first_version(), " to ", last_,
                                            ", the snapshot is of version ", version()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReplayedEntry> LogReplay::Next() {
  const uint64_t next = version() + 1;
  CHECK(next <= last_);
  ReplayedEntry entry;
  ASSIGN_OR_RETURN(entry.header, log_->ReadHeader(next));
  const v1::EntryHeader& header = entry.header;
  const absl::Status chain = CheckHeader(genesis_, next - 1, header_digest_, header);
  if (!chain.ok()) return EntryFault(next, HeadersPath(dir_), chain.message());
  if (header.previous_state_digest() != ToBytes(state_digest_)) {
    return EntryFault(next, HeadersPath(dir_),
                      absl::StrCat("the replayed state of version ", next - 1, " has digest ",
                                   ToHex(state_digest_), ", the header says otherwise"));
  }
  const absl::StatusOr<EntryStep> step = EntryStep::Make(fragments_, header);
  if (!step.ok()) return EntryFault(next, HeadersPath(dir_), step.status().message());
  const std::string path = PayloadPath(dir_, next);
  const absl::StatusOr<SharedBytes> payload =
      ReadPayload(files_, dir_, next, MaxPayloadBytes(step->grid(), step->codec()));
  if (absl::IsNotFound(payload.status())) {
    return EntryFault(next, path, "the payload is missing");
  }
  RETURN_IF_ERROR(payload.status());
  if (ToBytes(TreeDigest(payload->span())) != header.payload_digest()) {
    return EntryFault(next, path, "the payload's digest differs from the header's");
  }
  const absl::Status decodes = CheckPayload(step->grid(), step->codec(), *payload);
  if (!decodes.ok()) return EntryFault(next, path, decodes.message());
  memory_.Step(*step, *payload, {});
  state_digest_ = memory_.StateDigest();
  header_digest_ = HeaderDigest(header);
  entry.payload_bytes = payload->size();
  entry.state_digest = state_digest_;
  if (next < last_) {
    ASSIGN_OR_RETURN(const v1::EntryHeader after, log_->ReadHeader(next + 1));
    const absl::StatusOr<Digest> said = DigestFromBytes(after.previous_state_digest());
    if (!said.ok()) return EntryFault(next + 1, HeadersPath(dir_), said.status().message());
    entry.expected = *said;
  }
  return entry;
}

}  // namespace atolld
