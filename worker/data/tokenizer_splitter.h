// The pre-tokenizer of a tokenizer.json: cuts text into the words that a model encodes one by one.
//
// The law: the words are those of Hugging Face's tokenizers (0.23, src/pre_tokenizers). Every step
// splits the pieces of the one before. Immutable; any thread, each with a Scratch of its own.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "worker/data/token_pattern.h"

namespace atolld {

class WordSplitter {
 public:
  using Take = std::function<void(absl::string_view word)>;

  // INVALID_ARGUMENT names the part that is not known; null leaves every text whole.
  static absl::StatusOr<WordSplitter> Parse(const nlohmann::json& json);

  // The words are the bytes that the model's tokens write in GPT-2's alphabet: the last step that
  // changes the text is a ByteLevel. Else they are text, as the model's tokens are.
  bool gives_bytes() const { return gives_bytes_; }

  // A ByteLevel is among the steps.
  bool has_byte_level() const { return byte_level_; }

  // From now on words are text, in GPT-2's alphabet behind a ByteLevel.
  void GiveText() { gives_bytes_ = false; }

  // A step depends on whether a piece is the text's first, and pieces before that step are cut.
  bool asks_for_first() const { return asks_for_first_; }

  // The working memory of one thread's calls.
  class Scratch {
   public:
    explicit Scratch(const WordSplitter& splitter);

   private:
    friend class WordSplitter;
    std::vector<absl::optional<TokenPattern::Scratch>> of_step_;
  };

  // Calls `take` with each word of `text`, which is UTF-8, in order. `first`: nothing stands before
  // it. INTERNAL: PCRE2 gave up.
  absl::Status Split(absl::string_view text, bool first, Scratch& scratch, const Take& take) const;

 private:
  // What becomes of the matches of a pattern, by Hugging Face's names.
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prefix { kNever, kFirst, kAlways };

  struct Step {
    absl::optional<TokenPattern> pattern;  // none: pieces stay whole
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;      // what lies between matches are the matches
    bool byte_level = false;  // from here on, pieces are written in GPT-2's alphabet
    std::string space;        // what is put for a space, and before pieces; empty: nothing
    Prefix prefix = Prefix::kNever;
  };

  // The pieces of one step's text, put together of matches and what lies between.
  class Pieces;

  WordSplitter() = default;
  absl::Status Read(const nlohmann::json& json);
  absl::Status ReadSplit(const nlohmann::json& json);
  absl::Status ReadMetaspace(const nlohmann::json& json);
  absl::Status AddRegex(const std::string& regex, Behavior behavior, bool invert);
  absl::Status SplitBy(size_t step, absl::string_view text, bool first, Scratch& scratch,
                       const Take& take) const;
  absl::Status PassOn(size_t step, absl::string_view piece, bool first, Scratch& scratch,
                      const Take& take) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool gives_bytes_ = false;
  bool asks_for_first_ = false;
};

}  // namespace atolld
