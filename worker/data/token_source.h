// The tokens of one path: a training split and a validation split.
//
// The path may be text (which is used as bytes or encoded by a tokenizer), conversations, token
// files of other programs, or a folder that `atoll data prepare` has made. Files of tokens are
// mapped and never read as a whole. Immutable. May be used from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/base/file_io.h"
#include "worker/data/conversations.h"
#include "worker/data/text_files.h"
#include "worker/data/token_file.h"
#include "worker/data/tokenizer.h"

namespace atolld {

class TokenSource {
 public:
  struct Options {
    // "plain", "jsonl", "chat", "bin", "npy" and "prepared" mean that the data is of this kind.
    // "text" means that the kind is recognised by the content; it is prose if no other kind fits.
    std::string kind = "text";
    // The share of the tokens, at the end, that is for validation. Ignored if the files are already
    // split.
    double validation_fraction = 0.1;
    // The tokenizer of text: "bytes", "chars" or the path of a tokenizer's file.
    std::string tokenizer = "bytes";
    std::string field;  // The field of JSON records that has the text; if empty, "text".
    // The token between two documents; if empty, the tokenizer's files decide.
    std::string end_of_text;
    bool skip_bad_lines = false;  // True if bad lines of JSON are skipped.
    ChatOptions chat;             // The options for the kind "chat".
    uint32_t width = 0;           // See TokenFileOptions::width.
    uint64_t vocabulary = 256;    // Every id must be below it; kAnyVocabulary if it is unknown.
    // The tokenizer that `tokenizer` names, if it has been loaded already; if null, it is loaded.
    std::shared_ptr<const Tokenizer> ready;
    bool named = true;  // If false, no digest is computed.
  };

  static constexpr uint64_t kAnyVocabulary = 0xffffffff;

  // Fails with NOT_FOUND if the path does not exist; with INVALID_ARGUMENT if the data is empty,
  // malformed, or has an id outside the vocabulary (the message names the file and the byte); with
  // DATA_LOSS if the files of a prepared folder do not match its data.json.
  static absl::StatusOr<std::unique_ptr<TokenSource>> Open(const std::string& path,
                                                           const Options& options);

  // Makes a source from a text in memory, whose tokens are its bytes.
  static absl::StatusOr<std::unique_ptr<TokenSource>> FromText(std::string text,
                                                               double validation_fraction);

  const TokenSpan& train() const { return train_; }
  const TokenSpan& validation() const { return validation_; }

  // The marks of the tokens of conversations. Null for any other data, in which every token counts.
  const TokenMarks* train_marks() const { return kind_ == "chat" ? &train_marks_ : nullptr; }
  const TokenMarks* validation_marks() const {
    return kind_ == "chat" ? &validation_marks_ : nullptr;
  }

  // The digest by which the run identifies this data, 32 bytes. For plain bytes it is the SHA-256
  // of all bytes, including the newlines between files. Empty if Options::named is false.
  const std::string& digest() const { return digest_; }

  // The kind of the data that was found; see Options::kind.
  const std::string& kind() const { return kind_; }

  // Sentences for the data's owner that say what was left out or skipped, and which separator is
  // between two documents.
  const std::vector<std::string>& notes() const { return notes_; }

  // Null if the tokenizer that made the tokens is not known.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  const std::shared_ptr<const Tokenizer>& shared_tokenizer() const { return tokenizer_; }

 private:
  TokenSource() = default;
  absl::Status OpenPrepared(const std::string& path, const Options& options);
  absl::Status OpenTokens(const std::string& path, const Options& options);
  absl::Status AddTokens(const std::string& path, const Options& options, TokenSpan* to);
  absl::Status EncodeText(const std::vector<TextFile>& files, const std::string& path,
                          const Options& options);
  absl::Status OpenText(const std::string& path, const Options& options);
  absl::Status OpenChat(const std::string& path, const Options& options);
  absl::Status SplitChat(const TokenMarks& marks, uint32_t width, const Options& options);
  absl::Status Split(const TokenSpan& all, const Options& options);
  absl::Status TakeTokenizer(const std::string& name, const Options& options);
  void NoteRecurring();
  void Name(const Options& options);

  std::string kind_;
  std::string text_;  // The text of several files or of JSON lines, or tokens made by this object.
  std::vector<MappedFile> files_;
  MappedText mapped_text_;  // A file of text whose bytes are the tokens.
  std::shared_ptr<const Tokenizer> tokenizer_;
  TokenSpan train_, validation_;
  TokenMarks train_marks_, validation_marks_;  // The marks of conversations.
  std::string digest_;
  std::vector<std::string> notes_;
};

}  // namespace atolld
