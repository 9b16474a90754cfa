#include "daemon/replica/state/state_digest.h"

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "membership/history/header.h"
#include "membership/history/state_buffers.h"

namespace atolld {
namespace {

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values are hashed and stored as they lie in memory: little-endian machines only"
#endif

absl::Status CheckBuffer(const v1::SnapshotBuffer& buffer, const std::string& name,
                         uint64_t elements) {
  if (buffer.name() != name) {
    return absl::InvalidArgumentError(absl::StrCat("it is named ", buffer.name(), ", not ", name));
  }
  if (buffer.elements() != elements) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", buffer.elements(), " values, the manifest has ", elements));
  }
  return absl::OkStatus();
}

absl::Status CheckLeaves(const v1::SnapshotBuffer& buffer) {
  const uint64_t blocks = (buffer.elements() + kBlockElements - 1) / kBlockElements;
  if (static_cast<uint64_t>(buffer.leaves_size()) != blocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", buffer.leaves_size(), " leaves for ", blocks, " blocks"));
  }
  for (const std::string& leaf : buffer.leaves()) {
    RETURN_IF_ERROR(Annotate(DigestFromBytes(leaf).status(), "a leaf"));
  }
  return absl::OkStatus();
}

// Checks a branch that has its parent's buffers: only the version's number may differ from the
// parent's state.
absl::Status CheckParentState(const v1::SnapshotInfo& info) {
  const v1::Lineage& parent = info.genesis().spec().parent();
  if (info.version() != 0 || !parent.buffers()) return absl::OkStatus();
  if (ToBytes(StateDigestAs(info, parent.version())) == parent.state_digest()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("it is not the state of version ",
                                                 parent.version(), " of run ", parent.run_id(),
                                                 ", from which its run says that it branches"));
}

absl::Status CheckSnapshotHeader(const v1::SnapshotInfo& info) {
  if (info.version() == 0) {
    if (info.has_header()) return absl::InvalidArgumentError("version 0 has no header");
    return absl::OkStatus();
  }
  if (info.header().version() != info.version()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its header is of version ", info.header().version()));
  }
  return CheckHeaderAlone(info.genesis(), info.header());
}

}  // namespace

Digest StateDigestOf(uint64_t version, absl::Span<const BufferRoot> buffers) {
  DigestBuilder builder("atoll.state.1");
  builder.U64(version).U64(buffers.size());
  for (const BufferRoot& buffer : buffers) builder.Bytes(buffer.name).Bytes(ToBytes(buffer.root));
  return builder.Finish();
}

Digest StateDigestOf(const v1::SnapshotInfo& info) { return StateDigestAs(info, info.version()); }

Digest StateDigestAs(const v1::SnapshotInfo& info, uint64_t version) {
  std::vector<BufferRoot> roots;
  for (const v1::SnapshotBuffer& buffer : info.buffers()) {
    std::vector<Digest> leaves;
    leaves.reserve(static_cast<size_t>(buffer.leaves_size()));
    for (const std::string& leaf : buffer.leaves()) {
      const absl::StatusOr<Digest> digest = DigestFromBytes(leaf);
      CHECK_OK(digest.status());
      leaves.push_back(*digest);
    }
    roots.push_back({buffer.name(), TreeRoot(buffer.elements() * sizeof(float), leaves)});
  }
  return StateDigestOf(version, roots);
}

absl::Status CheckSnapshotShape(const v1::SnapshotInfo& info) {
  RETURN_IF_ERROR(Annotate(CheckGenesis(info.genesis()), "genesis"));
  RETURN_IF_ERROR(CheckSnapshotHeader(info));
  ASSIGN_OR_RETURN(std::vector<std::string> names, StateBuffers(info.genesis().spec()));
  names.insert(names.begin(), kThetaName);
  if (static_cast<size_t>(info.buffers_size()) != names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", info.buffers_size(), " buffers, the run has ", names.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    RETURN_IF_ERROR(Annotate(CheckBuffer(info.buffers(static_cast<int>(i)), names[i],
                                         info.genesis().manifest().elements()),
                             absl::StrCat("buffer ", i)));
  }
  return absl::OkStatus();
}

absl::Status CheckSnapshotInfo(const v1::SnapshotInfo& info) {
  RETURN_IF_ERROR(CheckSnapshotShape(info));
  for (int i = 0; i < info.buffers_size(); ++i) {
    RETURN_IF_ERROR(Annotate(CheckLeaves(info.buffers(i)), absl::StrCat("buffer ", i)));
  }
  const std::string digest = ToBytes(StateDigestOf(info));
  if (info.state_digest() != digest) {
    return absl::InvalidArgumentError("its state digest is not that of its leaves");
  }
  if (info.version() == 0 && info.genesis().state_digest() != digest) {
    return absl::InvalidArgumentError("its state digest is not the genesis' own");
  }
  return CheckParentState(info);
}

absl::Span<const uint8_t> BytesOf(absl::Span<const float> values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(float));
}

absl::Span<uint8_t> BytesOf(absl::Span<float> values) {
  return absl::MakeSpan(reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float));
}

}  // namespace atolld
