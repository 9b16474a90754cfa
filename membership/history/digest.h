// Digests: SHA-256 trees over 1 MiB blocks. Payloads, snapshots, states and repair all use the same
// structure.
//
// leaf_i = SHA-256(block i); root = SHA-256("atoll.tree.1" || bytes as u64 LE || leaf_0 || leaf_1
// ...). A digest always covers Atoll's own little-endian layout, never a serialised protobuf. Pure.
// May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "membership/history/sha256.h"

namespace atolld {

inline constexpr size_t kBlockBytes = size_t{1} << 20;

std::vector<Digest> TreeLeaves(absl::Span<const uint8_t> bytes);
Digest TreeRoot(uint64_t bytes, absl::Span<const Digest> leaves);
Digest TreeDigest(absl::Span<const uint8_t> bytes);

// Convert a digest to bytes for proto fields, and to hexadecimal text for people.
std::string ToBytes(const Digest& digest);
// Converts bytes to a digest. Fails with INVALID_ARGUMENT unless there are 32 bytes.
absl::StatusOr<Digest> DigestFromBytes(absl::string_view bytes);
std::string ToHex(const Digest& digest);

// SHA-256 over a sequence of typed fields, each written in Atoll's own layout.
class DigestBuilder {
 public:
  explicit DigestBuilder(absl::string_view domain);
  ~DigestBuilder();
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;
  DigestBuilder& U64(uint64_t value);             // adds 8 bytes, little-endian
  DigestBuilder& Bytes(absl::string_view bytes);  // adds the length as u64 LE, then the bytes
  Digest Finish();                                // must be called once, at the end

 private:
  void* context_;
};

}  // namespace atolld
