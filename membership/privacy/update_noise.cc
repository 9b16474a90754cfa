#include "membership/privacy/update_noise.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>

#include "compression/base/check.h"

namespace atolld {
namespace {

constexpr double kTwoPi = 6.28318530717958647692;
constexpr size_t kStreamBytes = 4096;  // bytes of the stream at a time

double ToUnit(uint64_t number) { return static_cast<double>(number >> 11) * 0x1p-53; }

}  // namespace

struct NoiseStream::Cipher {
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();

  Cipher() = default;
  ~Cipher() { EVP_CIPHER_CTX_free(context); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;
};

NoiseStream::NoiseStream(absl::string_view key)
    : cipher_(std::make_unique<Cipher>()), bytes_(kStreamBytes), used_(kStreamBytes) {
  CHECK(key.size() == kNoiseKeyBytes && cipher_->context != nullptr);
  const unsigned char counter[16] = {};
  CHECK(EVP_EncryptInit_ex(cipher_->context, EVP_aes_256_ctr(), nullptr,
                           reinterpret_cast<const unsigned char*>(key.data()), counter) == 1);
}

NoiseStream::~NoiseStream() = default;

uint64_t NoiseStream::NextNumber() {
  if (used_ == bytes_.size()) {
    std::fill(bytes_.begin(), bytes_.end(), uint8_t{0});
    int made = 0;
    CHECK(EVP_EncryptUpdate(cipher_->context, bytes_.data(), &made, bytes_.data(),
                            static_cast<int>(bytes_.size())) == 1);
    CHECK(static_cast<size_t>(made) == bytes_.size());
    used_ = 0;
  }
  uint64_t number = 0;
  for (unsigned i = 0; i < 8; ++i) number |= uint64_t{bytes_[used_ + i]} << (8 * i);
  used_ += 8;
  return number;
}

double NoiseStream::Next() {
  if (has_second_) {
    has_second_ = false;
    return second_;
  }
  const double u = ToUnit(NextNumber()) + 0x1p-53;
  const double v = ToUnit(NextNumber());
  const double r = std::sqrt(-2 * std::log(u));
  second_ = r * std::sin(kTwoPi * v);
  has_second_ = true;
  return r * std::cos(kTwoPi * v);
}

double LengthOf(absl::Span<const float> update) {
  double squares = 0;
  for (const float value : update) squares += double{value} * double{value};
  return std::sqrt(squares);
}

bool ClipUpdate(absl::Span<float> update, double length) {
  const double own = LengthOf(update);
  if (!std::isfinite(own) || own <= length) return false;
  const double factor = length / own * (1 - 0x1p-22);
  for (float& value : update) value = static_cast<float>(value * factor);
  return true;
}

void AddNoise(NoiseStream& noise, double deviation, absl::Span<float> update) {
  for (float& value : update) value = static_cast<float>(value + deviation * noise.Next());
}

}  // namespace atolld
