// The interface of tokenizers, which turn text into token ids and back, and the tokenizers of bytes
// and of characters.
//
// The law: the tokens depend only on the text and the tokenizer's file. A Tokenizer is immutable
// and may be used from any thread. An Encoder has a cache, so each thread needs its own Encoder.
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

  // Appends the tokens of `text`. Fails with INVALID_ARGUMENT if the tokenizer has no token for a
  // part of it; the message names the part and its offset in `text`.
  virtual absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) = 0;
};

// The separator between two documents.
struct Separator {
  absl::optional<uint32_t> token;  // The separator; if not set, a newline is used.
  std::string text;                // The token as the tokenizer's file writes it.
  // The file or option that names the token, for example "tokenizer_config.json" or "end_of_text";
  // may be empty.
  std::string said_by;
};

// Returns a description, for example: token 1, "[EOS]", as tokenizer_config.json says.
std::string Describe(const Separator& separator);

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Returns "bytes", "chars", "bpe", "unigram" or "sentencepiece".
  virtual std::string kind() const = 0;

  // Returns a number above every token id.
  virtual uint32_t vocabulary() const = 0;

  // Returns the token that the tokenizer's file itself declares as the end of a text; nullopt if it
  // declares none, as in most formats.
  virtual absl::optional<uint32_t> OwnEndOfText() const { return absl::nullopt; }

  // Returns the id of the token that is written as `token`; nullopt if there is none or this kind
  // has no written tokens.
  virtual absl::optional<uint32_t> IdOf(const std::string& /*token*/) const {
    return absl::nullopt;
  }

  // Returns the written form of a token; empty if this kind has no written tokens.
  virtual std::string Written(uint32_t /*token*/) const { return ""; }

  // The separator between documents. LoadTokenizer sets it before the tokenizer is used by several
  // threads.
  const Separator& separator() const { return separator_; }
  void set_separator(Separator separator) { separator_ = std::move(separator); }

  // A note for the user about the choice of the tokenizer's file; may be empty.
  const std::string& note() const { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

  virtual std::unique_ptr<Encoder> NewEncoder() const = 0;

  // Returns the bytes of the text. Fails with INVALID_ARGUMENT if an id is not in the vocabulary;
  // the message names it.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const = 0;

  // Returns true if a text may be cut before any space between two ASCII letters and encoded piece
  // by piece with the same result. If it is false, text is cut only at the ends of sentences.
  virtual bool CutsAtSpaces() const { return true; }

  // The contents of a file from which LoadTokenizer can load this tokenizer; empty for "bytes",
  // which needs no file.
  const std::string& file() const { return file_; }

  // The SHA-256 of file(), 32 bytes; empty for "bytes".
  const std::string& digest() const { return digest_; }

 protected:
  explicit Tokenizer(std::string file);

 private:
  const std::string file_;
  const std::string digest_;
  Separator separator_;
  std::string note_;
};

// Makes a tokenizer with one token per byte. Its ids are 0 to 255.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// Makes a tokenizer with one token per Unicode character, numbered in the order of the characters,
// as in nanoGPT's shakespeare_char. Fails with INVALID_ARGUMENT if there are no characters or more
// than 65536.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(std::vector<uint32_t> characters);

// Makes the tokenizer of characters from a prepared folder's characters.json, which is
// {"characters": [code points, ascending]}.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseCharTokenizer(const nlohmann::json& json);

}  // namespace atolld
