// Text to token ids and back: what a tokenizer is, and those of bytes and of characters.
//
// The law: encoding depends on the text and the tokenizer's file alone. Immutable; any thread. An
// Encoder keeps what it has learnt of earlier text to be quick, never to decide: one a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace atolld {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the tokens of `text`. INVALID_ARGUMENT: it holds what the tokenizer has no token for;
  // the message says what, and at which byte of `text`.
  virtual absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) = 0;
};

// What stands between two documents.
struct Separator {
  absl::optional<uint32_t> token;  // none: a newline
  std::string text;                // the token, as the tokenizer's file writes it
  std::string said_by;             // "tokenizer_config.json", "end_of_text"; empty: nobody
};

// "token 1, "[EOS]", as tokenizer_config.json says".
std::string Describe(const Separator& separator);

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "bytes", "chars", "bpe", "unigram" or "sentencepiece".
  virtual std::string kind() const = 0;

  // Token ids are below this.
  virtual uint32_t vocabulary() const = 0;

  // The token that a model's own file makes the end of a text; most formats do not say it.
  virtual absl::optional<uint32_t> OwnEndOfText() const { return absl::nullopt; }

  // The token that is written like this; none: there is none, or the kind has no written tokens.
  virtual absl::optional<uint32_t> IdOf(const std::string& /*token*/) const {
    return absl::nullopt;
  }

  // A token as its file writes it; empty: the kind has no written tokens.
  virtual std::string Written(uint32_t /*token*/) const { return ""; }

  // LoadTokenizer says it, by what lies beside the file. Set before others see the tokenizer.
  const Separator& separator() const { return separator_; }
  void set_separator(Separator separator) { separator_ = std::move(separator); }

  // What its user should know of how it was found; empty: nothing.
  const std::string& note() const { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

  virtual std::unique_ptr<Encoder> NewEncoder() const = 0;

  // The bytes of the text. INVALID_ARGUMENT names an id that is not in the vocabulary.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const = 0;

  // Whether the text may be cut before a space that stands between two ASCII letters, and encoded
  // piece by piece, without another result; if not, where a piece ends a sentence ends too.
  virtual bool CutsAtSpaces() const { return true; }

  // What LoadTokenizer would read: the bytes of its file; empty for "bytes", which needs none.
  const std::string& file() const { return file_; }

  // SHA-256 of file(), 32 bytes; empty for "bytes".
  const std::string& digest() const { return digest_; }

 protected:
  explicit Tokenizer(std::string file);

 private:
  const std::string file_;
  const std::string digest_;
  Separator separator_;
  std::string note_;
};

// A token a byte; ids 0-255.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// A token a Unicode character, numbered in the order of the characters, as nanoGPT's
// shakespeare_char does. INVALID_ARGUMENT: none, or more than 65536.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(
    const std::vector<uint32_t>& characters);

// The tokenizer of a prepared folder's characters.json: {"characters": [code points, ascending]}.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseCharTokenizer(const nlohmann::json& json);

// Well-formed UTF-8 (Unicode 15, table 3-7): checked, read, written.

// The offset of the first byte that is not part of well-formed UTF-8; bytes.size() if there is
// none.
size_t FindInvalidUtf8(absl::Span<const uint8_t> bytes);

// The length of the well-formed sequence that `rest`, which is not empty, begins with; 0 if there
// is none.
size_t Utf8Length(absl::Span<const uint8_t> rest);

// The character of a well-formed sequence.
uint32_t ReadUtf8(absl::Span<const uint8_t> sequence);

// `character` is a Unicode scalar value.
void AppendUtf8(uint32_t character, std::string* out);

}  // namespace atolld
