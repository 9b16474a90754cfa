// The decoder of a tokenizer.json: tokens back to text.
//
// The law: the text is that of Hugging Face's tokenizers (0.23, src/decoders), special tokens kept,
// but for bytes of a ByteLevel that are no UTF-8: they come back as they are, where Hugging Face
// writes U+FFFD. Immutable; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace atolld {

class TokenDecoder {
 public:
  // What is not known is an error of Decode alone: it changes no token. A file that has none gets
  // that of its pre-tokenizer: a ByteLevel if `byte_level`, else tokens stand with spaces between.
  static TokenDecoder Parse(const nlohmann::json& json, bool byte_level);

  TokenDecoder(TokenDecoder&&) noexcept;
  TokenDecoder& operator=(TokenDecoder&&) noexcept;
  ~TokenDecoder();

  // Nothing but a ByteLevel: each token is its bytes, whatever stands around it.
  bool is_byte_level() const;

  // INVALID_ARGUMENT names the part that is not known. INTERNAL: PCRE2 gave up.
  absl::StatusOr<std::string> Decode(std::vector<std::string> tokens) const;

  // The bytes that a token of a ByteLevel stands for; itself if it is not of that alphabet.
  static std::string BytesOf(const std::string& token);

 private:
  struct Step;

  TokenDecoder();
  void Read(const nlohmann::json& json);
  void ReadReplace(const nlohmann::json& json);

  std::vector<Step> steps_;
  bool joins_with_spaces_ = false;
  absl::Status known_;
};

}  // namespace atolld
