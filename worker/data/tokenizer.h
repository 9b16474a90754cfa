// Text to token ids and back.
//
// The law: encoding depends on the text and the tokenizer's file alone. Immutable; any thread. An
// Encoder keeps what it has learnt of earlier text to be quick, never to decide: one a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
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

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "bytes", "chars", "bpe" or "sentencepiece".
  virtual std::string kind() const = 0;

  // Token ids are below this.
  virtual uint32_t vocabulary() const = 0;

  // What stands between two documents, where the tokenizer has such a token.
  virtual absl::optional<uint32_t> end_of_text() const { return absl::nullopt; }

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
};

// A token a byte; ids 0-255.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// A token a Unicode character, numbered in the order of the characters, as nanoGPT's
// shakespeare_char does. INVALID_ARGUMENT: none, or more than 65536.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(
    const std::vector<uint32_t>& characters);

// "bytes", or the path of a file: Hugging Face's tokenizer.json with byte-level BPE, a
// SentencePiece model, the characters.json of a prepared folder. NOT_FOUND: no such file.
// INVALID_ARGUMENT: none of these, or with a part that is not known; the message names the file and
// the part.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& spec);

// The same of a file that is in memory; `name` is for messages.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(const std::string& name,
                                                          std::string file);

// The name under which a prepared folder keeps the file of a tokenizer of this kind; empty: none.
std::string TokenizerFileName(const std::string& kind);

}  // namespace atolld
