// The pre-tokenizer of a tokenizer.json, which cuts text into words that the model encodes one by
// one.
//
// The law: the words are those of Hugging Face's tokenizers (0.23, src/pre_tokenizers). Each step
// splits the pieces of the previous step. Immutable. May be used from any thread, each with a
// Scratch of its own.
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

  // Parses the pre-tokenizer of a file; if `json` is null, returns one that leaves every text
  // whole. Fails with INVALID_ARGUMENT if a part is unknown; the message names it.
  static absl::StatusOr<WordSplitter> Parse(const nlohmann::json& json);

  // Returns true if the words are bytes, while the model's tokens write bytes in GPT-2's alphabet.
  // This is so if the last step that changes the text is a ByteLevel. Otherwise both words and
  // tokens are text.
  bool gives_bytes() const { return gives_bytes_; }

  // Returns true if a ByteLevel is among the steps.
  bool has_byte_level() const { return byte_level_; }

  // Makes all words text from now on. After a ByteLevel step this text is written in GPT-2's
  // alphabet.
  void GiveText() { gives_bytes_ = false; }

  // Returns true if a step treats the first piece of a text differently, and an earlier step cuts
  // the text into pieces.
  bool asks_for_first() const { return asks_for_first_; }

  // The working memory of one thread's calls.
  class Scratch {
   public:
    explicit Scratch(const WordSplitter& splitter);

   private:
    friend class WordSplitter;
    std::vector<absl::optional<TokenPattern::Scratch>> of_step_;
  };

  // Calls `take` with each word of `text` in order. `text` must be UTF-8. `first` is true if no
  // other text precedes it. Fails with INTERNAL if PCRE2 has reached one of its limits.
  absl::Status Split(absl::string_view text, bool first, Scratch& scratch, const Take& take) const;

 private:
  // The treatment of a pattern's matches, with the names that Hugging Face uses.
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prefix { kNever, kFirst, kAlways };

  struct Step {
    // The pattern at which pieces are split; if not set, they stay whole.
    absl::optional<TokenPattern> pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;      // If true, the text between matches is treated as the matches.
    bool byte_level = false;  // True if pieces are written in GPT-2's alphabet from this step on.
    std::string space;  // The text that replaces a space and is put before pieces; unused if empty.
    Prefix prefix = Prefix::kNever;
  };

  // The pieces that one step makes of its text, from matches and the text between them.
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
