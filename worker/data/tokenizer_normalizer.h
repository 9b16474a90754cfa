// The normalizer of a tokenizer.json, which changes a text before it is cut into words.
//
// The law: the result is that of Hugging Face's tokenizers (0.23, src/normalizers) for the same
// text, except for characters whose properties Unicode has changed since the version of Hugging
// Face's tables. Immutable. May be used from any thread.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace atolld {

class TextNormalizer {
 public:
  // Parses the normalizer of a file; if `json` is null, returns a normalizer that does nothing.
  // Fails with INVALID_ARGUMENT if a part is unknown; the message names it.
  static absl::StatusOr<TextNormalizer> Parse(const nlohmann::json& json);

  TextNormalizer(TextNormalizer&&) noexcept;
  TextNormalizer& operator=(TextNormalizer&&) noexcept;
  ~TextNormalizer();

  // Returns true if the normalizer never changes a text.
  bool does_nothing() const { return steps_.empty(); }

  // Returns true if nothing is ever inserted before the first character of a text or its
  // replacement. Hugging Face uses this to decide which piece is the first of a text.
  bool keeps_start() const;

  // Normalizes `text`, which must be UTF-8. Fails with INTERNAL if ICU or PCRE2 fails.
  absl::Status Apply(std::string* text) const;

 private:
  struct Step;

  TextNormalizer();
  absl::Status Read(const nlohmann::json& json);
  absl::Status ReadReplace(const nlohmann::json& json);

  std::vector<Step> steps_;
};

}  // namespace atolld
