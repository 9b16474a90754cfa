// The digest of a whole state. Replicas compare their digests, headers carry the digest, and
// snapshots are checked against it.
//
//   SHA-256 over ("atoll.state.1", version, count,
//                 then name and tree root of theta and of each buffer)
//
// theta comes first, then the outer rule's buffers by name; each root is TreeRoot over the buffer's
// fp32 values, little-endian. The functions are pure and may be called from any thread.
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

// Computes the digest from the leaves of a snapshot, which must have a checked shape
// (CheckSnapshotInfo).
Digest StateDigestOf(const v1::SnapshotInfo& info);
// Computes the digest that the same state would have as another version.
Digest StateDigestAs(const v1::SnapshotInfo& info, uint64_t version);

// Fails with INVALID_ARGUMENT unless the snapshot's parts fit together. The genesis must be sound.
// The buffers must be theta and the outer rule's buffers, each as long as the manifest says and
// with one leaf for each block. The header must be the header of `version`. The state digest must
// follow from the leaves, and at version 0 must also equal the genesis's. If a branch has its
// parent's buffers, its version 0 must be the parent's state.
absl::Status CheckSnapshotInfo(const v1::SnapshotInfo& info);
// Like CheckSnapshotInfo, but for an info without leaves: does not check the leaves and the state
// digest that follows from them.
absl::Status CheckSnapshotShape(const v1::SnapshotInfo& info);

// Returns the bytes of fp32 values, as they are hashed and written to files.
absl::Span<const uint8_t> BytesOf(absl::Span<const float> values);
absl::Span<uint8_t> BytesOf(absl::Span<float> values);

}  // namespace atolld
