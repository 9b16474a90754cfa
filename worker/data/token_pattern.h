// The patterns of tokenizer.json, as Oniguruma reads them, found by PCRE2: it has Unicode's
// properties, lookahead and a JIT.
//
// The law: a pattern means here what it means to Oniguruma with Ruby's syntax, which Hugging Face
// uses (^ and $ know lines, \h is a hex digit, classes nest, \s is White_Space), or it is refused.
// Immutable; any thread, each with a Scratch of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

class TokenPattern {
 public:
  // INVALID_ARGUMENT quotes the pattern and says what of it is not understood.
  static absl::StatusOr<TokenPattern> OfRegex(const std::string& regex);

  // Matches `text`, which is not empty, alone.
  static TokenPattern OfText(std::string text);

  // The working memory of one thread's searches, for one pattern.
  class Scratch {
   public:
    explicit Scratch(const TokenPattern& pattern);

   private:
    friend class TokenPattern;
    std::unique_ptr<void, void (*)(void*)> match_;  // PCRE2's
  };

  // The search through one text: matches in order, none within another.
  struct Search {
    explicit Search(absl::string_view searched) : text(searched) {}

    const absl::string_view text;  // UTF-8
    size_t first = 0, end = 0;     // of the match
    absl::Status status;           // INTERNAL: PCRE2 gave up

   private:
    friend class TokenPattern;
    size_t from_ = 0;
    size_t last_ = std::string::npos;  // where the match before ended
  };

  // False: there is no other match, or the search's status says why. A match may be empty, as
  // Oniguruma's iterator gives them: never where the one before ended.
  bool Next(Search& search, Scratch& scratch) const;

 private:
  TokenPattern() : code_(nullptr, nullptr) {}
  bool Find(Search& search, Scratch& scratch) const;

  std::string text_;                             // empty: code_ finds
  std::unique_ptr<void, void (*)(void*)> code_;  // PCRE2's
};

}  // namespace atolld
