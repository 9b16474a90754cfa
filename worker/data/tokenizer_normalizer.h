// The normalizer of a tokenizer.json: what becomes of text before it is cut.
//
// The law: what Hugging Face's tokenizers (0.23, src/normalizers) make of the same text, but for
// characters that Unicode has changed since their tables. Immutable; any thread.
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
  // INVALID_ARGUMENT names the part that is not known; null is a normalizer that does nothing.
  static absl::StatusOr<TextNormalizer> Parse(const nlohmann::json& json);

  TextNormalizer(TextNormalizer&&) noexcept;
  TextNormalizer& operator=(TextNormalizer&&) noexcept;
  ~TextNormalizer();

  // It changes no text at all.
  bool does_nothing() const { return steps_.empty(); }

  // A text's first character, or what became of it, stays the first one. Hugging Face tells by
  // this which piece is a text's first.
  bool keeps_start() const;

  // `text` is UTF-8. INTERNAL: ICU or PCRE2 gave up.
  absl::Status Apply(std::string* text) const;

 private:
  struct Step;

  TextNormalizer();
  absl::Status Read(const nlohmann::json& json);
  absl::Status ReadReplace(const nlohmann::json& json);

  std::vector<Step> steps_;
};

}  // namespace atolld
