// SHA-256 over bytes that come in parts. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"

namespace atolld {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Add(absl::Span<const uint8_t> bytes);
  Sha256& Add(const std::string& text);

  // The 32 bytes; nothing may be added after.
  std::string Finish();

 private:
  void* const context_;  // OpenSSL's
};

// The bytes of one that was written as hex digits, of which there are an even number.
std::string Sha256FromHex(const std::string& hex);

// Of one piece.
std::string Sha256Of(absl::Span<const uint8_t> bytes);

}  // namespace atolld
