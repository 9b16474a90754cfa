// Matches the patterns of a tokenizer.json. They are written for the library Oniguruma, but matched
// with PCRE2, which has Unicode properties, lookahead and a JIT compiler.
//
// The law: a pattern has the same meaning as in Oniguruma with Ruby's syntax, which Hugging Face
// uses (^ and $ match at lines, \h is a hex digit, classes nest, \s is White_Space); a pattern for
// which this is not possible is refused. Immutable. May be used from any thread, each with a
// Scratch of its own.
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
  // Fails with INVALID_ARGUMENT if a part of the pattern is not supported; the message quotes the
  // pattern and names the part.
  static absl::StatusOr<TokenPattern> OfRegex(const std::string& regex);

  // Returns a pattern that matches `text` literally. `text` must not be empty.
  static TokenPattern OfText(std::string text);

  // The working memory of one thread's searches for one pattern.
  class Scratch {
   public:
    explicit Scratch(const TokenPattern& pattern);

   private:
    friend class TokenPattern;
    std::unique_ptr<void, void (*)(void*)> match_;  // PCRE2's match data.
  };

  // The state of a search through one text, which finds matches in order and without overlap.
  struct Search {
    explicit Search(absl::string_view searched) : text(searched) {}

    const absl::string_view text;  // The text, in UTF-8.
    size_t first = 0, end = 0;     // The newest match is [first, end).
    absl::Status status;           // INTERNAL if PCRE2 has reached one of its limits.

   private:
    friend class TokenPattern;
    size_t from_ = 0;
    size_t last_ = std::string::npos;  // The end of the previous match.
  };

  // Finds the next match. Returns false if there is none, or if the search failed; search.status
  // then has the error. Like Oniguruma's iterator, this may find an empty match, but never one at
  // the end of the previous match.
  bool Next(Search& search, Scratch& scratch) const;

  // Returns the text with `content` in place of every match.
  absl::StatusOr<std::string> Replace(absl::string_view text, absl::string_view content) const;

 private:
  TokenPattern() : code_(nullptr, nullptr) {}
  bool Find(Search& search, Scratch& scratch) const;

  std::string text_;                             // The literal text; if empty, code_ is used.
  std::unique_ptr<void, void (*)(void*)> code_;  // PCRE2's code.
};

}  // namespace atolld
