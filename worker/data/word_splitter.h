// Cuts text into the words that byte-pair merges never cross, by the regular expressions of a
// tokenizer's file. PCRE2, with UTF-8 and Unicode's properties. Immutable; any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// GPT-2's own (openai/gpt-2, encoder.py), which a byte-level pre-tokenizer has built in.
extern const char kGpt2Pattern[];

class WordSplitter {
 public:
  // Every pattern splits what the one before has left whole. INVALID_ARGUMENT quotes the pattern
  // that is none.
  static absl::StatusOr<WordSplitter> Make(const std::vector<std::string>& patterns);

  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;
  ~WordSplitter();

  // The working memory of one thread's calls.
  class Scratch {
   public:
    explicit Scratch(const WordSplitter& splitter);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class WordSplitter;
    std::vector<void*> matches_;  // PCRE2's, one a pattern
  };

  // Calls `take` with each word, in order; together they are `text`, which must be UTF-8. Where a
  // pattern does not match, what lies between its matches is a word too. INTERNAL: PCRE2 gave up.
  absl::Status Split(absl::string_view text, Scratch& scratch,
                     const std::function<void(absl::string_view)>& take) const;

 private:
  WordSplitter() = default;
  absl::Status SplitBy(size_t pattern, absl::string_view text, Scratch& scratch,
                       const std::function<void(absl::string_view)>& take) const;

  std::vector<void*> codes_;  // PCRE2's
};

// The pattern with \s and \S written out as Unicode's White_Space: PCRE2 counts U+180E among them,
// which other engines do not.
std::string WithUnicodeSpaces(const std::string& pattern);

}  // namespace atolld
