#include "membership/masking/mask_stream.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "compression/base/check.h"

namespace atolld {
namespace {

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

// The elements that are processed at once: their stream stays in the first cache.
constexpr size_t kElementsAtOnce = 2048;

// OpenSSL's form of the nonce: the counter as u32 LE, then the 12 bytes of the RFC.
std::array<uint8_t, 16> NonceOf(uint64_t chunk) {
  std::array<uint8_t, 16> nonce{};
  for (size_t i = 0; i < 8; ++i) nonce[8 + i] = static_cast<uint8_t>(chunk >> (8 * i));
  return nonce;
}

uint32_t ElementAt(const uint8_t* bytes, uint32_t width) {
  uint32_t element = 0;
  for (uint32_t i = 0; i < width; ++i) element |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return element;
}

}  // namespace

void ApplyMask(const RingForm& ring, const MaskSecret& secret, uint64_t chunk, MaskSign sign,
               absl::Span<uint32_t> elements) {
  const std::unique_ptr<EVP_CIPHER_CTX, FreeCipher> cipher(EVP_CIPHER_CTX_new());
  const std::array<uint8_t, 16> nonce = NonceOf(chunk);
  CHECK(cipher != nullptr);
  CHECK(EVP_EncryptInit_ex(cipher.get(), EVP_chacha20(), nullptr, secret.data(), nonce.data()) ==
        1);
  const std::vector<uint8_t> zeros(kElementsAtOnce * ring.bytes);
  std::vector<uint8_t> stream(zeros.size());
  const uint32_t bits = ring.element_mask();
  for (size_t begin = 0; begin < elements.size(); begin += kElementsAtOnce) {
    const absl::Span<uint32_t> part = elements.subspan(begin, kElementsAtOnce);
    int written = 0;
    const int wanted = static_cast<int>(part.size() * ring.bytes);
    CHECK(EVP_EncryptUpdate(cipher.get(), stream.data(), &written, zeros.data(), wanted) == 1);
    CHECK(written == wanted);
    for (size_t i = 0; i < part.size(); ++i) {
      const uint32_t mask = ElementAt(stream.data() + i * ring.bytes, ring.bytes);
      part[i] = (sign == MaskSign::kAdd ? part[i] + mask : part[i] - mask) & bits;
    }
  }
}

}  // namespace atolld
