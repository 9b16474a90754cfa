// SHA-256: how a run names the files that every worker must have alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// Of bytes that come in parts. A length before each part keeps the parts apart; the caller adds it.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(absl::Span<const uint8_t> bytes);
  void Add(absl::string_view text);

  // 32 bytes; the last call. INTERNAL: the library failed.
  absl::StatusOr<std::string> Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace atolld
