#include "membership/history/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

constexpr absl::string_view kTreeDomain = "atoll.tree.1";

std::array<uint8_t, 8> LittleEndian(uint64_t value) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  return bytes;
}

EVP_MD_CTX* NewSha256() {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  CHECK(context != nullptr);
  CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  return context;
}

void Update(EVP_MD_CTX* context, const void* data, size_t size) {
  CHECK(EVP_DigestUpdate(context, data, size) == 1);
}

Digest FinishAndFree(EVP_MD_CTX* context) {
  Digest digest;
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(context, digest.data(), &size) == 1);
  CHECK(size == digest.size());
  EVP_MD_CTX_free(context);
  return digest;
}

}  // namespace

std::vector<Digest> TreeLeaves(absl::Span<const uint8_t> bytes) {
  std::vector<absl::Span<const uint8_t>> blocks;
  blocks.reserve((bytes.size() + kBlockBytes - 1) / kBlockBytes);
  for (size_t offset = 0; offset < bytes.size(); offset += kBlockBytes) {
    blocks.push_back(bytes.subspan(offset, kBlockBytes));
  }
  return Sha256Each(blocks);
}

Digest TreeRoot(uint64_t bytes, absl::Span<const Digest> leaves) {
  EVP_MD_CTX* context = NewSha256();
  Update(context, kTreeDomain.data(), kTreeDomain.size());
  const std::array<uint8_t, 8> length = LittleEndian(bytes);
  Update(context, length.data(), length.size());
  for (const Digest& leaf : leaves) Update(context, leaf.data(), leaf.size());
  return FinishAndFree(context);
}

Digest TreeDigest(absl::Span<const uint8_t> bytes) {
  return TreeRoot(bytes.size(), TreeLeaves(bytes));
}

std::string ToBytes(const Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

absl::StatusOr<Digest> DigestFromBytes(absl::string_view bytes) {
  Digest digest;
  if (bytes.size() != digest.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a digest has 32 bytes, these are ", bytes.size()));
  }
  std::memcpy(digest.data(), bytes.data(), digest.size());
  return digest;
}

std::string ToHex(const Digest& digest) { return absl::BytesToHexString(ToBytes(digest)); }

DigestBuilder::DigestBuilder(absl::string_view domain) : context_(NewSha256()) { Bytes(domain); }

DigestBuilder::~DigestBuilder() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

DigestBuilder& DigestBuilder::U64(uint64_t value) {
  const std::array<uint8_t, 8> bytes = LittleEndian(value);
  Update(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size());
  return *this;
}

DigestBuilder& DigestBuilder::Bytes(absl::string_view bytes) {
  U64(bytes.size());
  Update(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size());
  return *this;
}

Digest DigestBuilder::Finish() {
  CHECK(context_ != nullptr);
  const Digest digest = FinishAndFree(static_cast<EVP_MD_CTX*>(context_));
  context_ = nullptr;
  return digest;
}

}  // namespace atolld
