// The decoder of a tokenizer.json: turns tokens back into text.
//
// The law: the text is that of Hugging Face's tokenizers (0.23, src/decoders) with special tokens
// kept. There is one exception: bytes of a ByteLevel decoder that are not UTF-8 are returned
// unchanged, while Hugging Face replaces them by U+FFFD. Immutable. May be used from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace atolld {

class TokenDecoder {
 public:
  // Parses the decoder of a file. An unknown part makes only Decode fail, because it does not
  // affect the encoding. If `json` is null, returns a decoder that fits the pre-tokenizer: a
  // ByteLevel decoder if `byte_level` is true, and otherwise one that joins tokens with spaces.
  static TokenDecoder Parse(const nlohmann::json& json, bool byte_level);

  TokenDecoder(TokenDecoder&&) noexcept;
  TokenDecoder& operator=(TokenDecoder&&) noexcept;
  ~TokenDecoder();

  // Returns true if the decoder consists only of a ByteLevel, so that each token can be decoded
  // alone.
  bool is_byte_level() const;

  // Returns the text of the tokens, which are given in their written form. Fails with
  // INVALID_ARGUMENT if a part of the decoder is unknown (the message names it), and with INTERNAL
  // if PCRE2 has reached one of its limits.
  absl::StatusOr<std::string> Decode(std::vector<std::string> tokens) const;

  // Returns the bytes of a token that is written in GPT-2's alphabet (token_model.h), or the
  // token itself if it is not written in it.
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
