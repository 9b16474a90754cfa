// The digest of a whole state: what replicas compare, headers carry and snapshots are checked
// against.
//
//   SHA-256 over ("atoll.state.1", version, count,
//                 then name and tree root of theta and of each buffer)
//
// theta comes first, then the outer rule's buffers by name; each root is TreeRoot over its fp32
// values, little-endian. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/replica.pb.h"
#include "membership/history/digest.h"

namespace atolld {

inline constexpr char kThetaName[] = "theta";
inline constexpr uint64_t kBlockElements = kBlockBytes / sizeof(float);

struct BufferRoot {
  std::string name;
  Digest root;
};

Digest StateDigestOf(uint64_t version, absl::Span<const BufferRoot> buffers);

// From the leaves that a snapshot carries. They must have been checked for shape
// (CheckSnapshotInfo).
Digest StateDigestOf(const v1::SnapshotInfo& info);
// The same state as that of another version.
Digest StateDigestAs(const v1::SnapshotInfo& info, uint64_t version);

// INVALID_ARGUMENT unless the snapshot's parts agree with one another: the genesis is sound, the
// buffers are theta and the outer rule's, each as long as the manifest says with a leaf a block,
// the header is that of `version`, and the state digest is that of the leaves (and the genesis' own
// at version 0). Version 0 of a branch that has its parent's buffers must be the parent's state.
absl::Status CheckSnapshotInfo(const v1::SnapshotInfo& info);
// The same before its leaves are here: everything but them and the digest that they make.
absl::Status CheckSnapshotShape(const v1::SnapshotInfo& info);

// The bytes of fp32 values, as they are hashed and lie in files.
absl::Span<const uint8_t> BytesOf(absl::Span<const float> values);
absl::Span<uint8_t> BytesOf(absl::Span<float> values);

}  // namespace atolld
