// Digests: SHA-256 trees over 1 MiB blocks, one structure for payloads, snapshots, states and
// repair.
//
// leaf_i = SHA-256(block i); root = SHA-256("atoll.tree.1" || bytes as u64 LE || leaf_0 || leaf_1
// ...). A digest is of our own little-endian layout, never of a serialised protobuf. Pure
// functions, any thread.
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

// For proto fields and people.
std::string ToBytes(const Digest& digest);
// INVALID_ARGUMENT unless 32 bytes
absl::StatusOr<Digest> DigestFromBytes(absl::string_view bytes);
std::string ToHex(const Digest& digest);

// SHA-256 over a sequence of typed fields, each written in our own layout.
class DigestBuilder {
 public:
  explicit DigestBuilder(absl::string_view domain);
  ~DigestBuilder();
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;
  DigestBuilder& U64(uint64_t value);             // 8 bytes LE
  DigestBuilder& Bytes(absl::string_view bytes);  // length as u64 LE, then the bytes
  Digest Finish();                                // once

 private:
  void* context_;
};

}  // namespace atolld
