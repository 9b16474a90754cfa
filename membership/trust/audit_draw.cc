#include "membership/trust/audit_draw.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

constexpr absl::string_view kAuditDomain = "atoll.audit.1";

std::string Sha256(absl::string_view bytes) {
  std::string digest(32, '\0');
  unsigned int size = 0;
  const int made =
      EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                 EVP_sha256(), nullptr);
  if (made != 1 || size != digest.size()) std::abort();  // it cannot fail
  return digest;
}

std::string LittleEndian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

}  // namespace

std::string AuditCommitment(absl::string_view nonce) { return Sha256(nonce); }

AuditDraw::AuditDraw(absl::string_view previous_header_digest, absl::string_view payload_digest,
                     absl::string_view nonce)
    : seed_(absl::StrCat(kAuditDomain, previous_header_digest, payload_digest, nonce)) {}

// Block i of the stream is SHA-256(seed || i as u64 LE); numbers are its bytes by eights, LE.
uint64_t AuditDraw::Next() {
  if (left_.empty()) left_ = Sha256(absl::StrCat(seed_, LittleEndian(block_++)));
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) {
    number |= static_cast<uint64_t>(static_cast<uint8_t>(left_[i])) << (8 * i);
  }
  left_.erase(0, 8);
  return number;
}

std::vector<uint32_t> AuditDraw::Chunks(uint32_t chunks, float share) {
  std::vector<uint32_t> drawn;
  // share x 2^64, exact.
  const double bound = std::ldexp(static_cast<double>(share), 64);
  for (uint32_t c = 0; c < chunks && share > 0; ++c) {
    const uint64_t number = Next();
    if (share >= 1 || number < static_cast<uint64_t>(bound)) drawn.push_back(c);
  }
  return drawn;
}

std::string AuditDraw::Auditor(const std::map<std::string, uint64_t>& strengths) {
  std::vector<std::string> idlest;
  // Load with one more / strength, over a common denominator.
  const auto before = [&](const std::string& a, const std::string& b) {
    return (load_[a] + 1) * strengths.at(b) < (load_[b] + 1) * strengths.at(a);
  };
  for (const auto& [peer, strength] : strengths) {
    if (!idlest.empty() && before(idlest.front(), peer)) continue;
    if (!idlest.empty() && before(peer, idlest.front())) idlest.clear();
    idlest.push_back(peer);
  }
  if (idlest.empty()) return "";
  const std::string& chosen = idlest[Next() % idlest.size()];
  ++load_[chosen];
  return chosen;
}

}  // namespace atolld
