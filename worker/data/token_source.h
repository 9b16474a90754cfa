// The tokens of one place: a training split and a validation split.
//
// What lies there may be text (bytes, or what a tokenizer makes of it), conversations, token files
// of other programs, or a folder that `atoll data prepare` made; files of tokens are mapped, never
// read whole. Immutable; any thread.
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
    // "text": what is there says what it is, prose where nothing else does. "plain", "jsonl",
    // "chat", "bin", "npy", "prepared": that and nothing else.
    std::string kind = "text";
    double validation_fraction = 0.1;  // the tail; where the files are not already split
    std::string tokenizer = "bytes";   // "bytes", "chars" or a file; of text
    std::string field;                 // of lines of JSON; empty: "text"
    std::string end_of_text;           // a token of the tokenizer's; empty: what its files say
    bool skip_bad_lines = false;       // of JSON
    ChatOptions chat;                  // of kind "chat"
    uint32_t width = 0;                // bytes of a bare id; 0: as OpenTokenFile
    uint64_t vocabulary = 256;         // ids must be below; kAnyVocabulary: not known
    // What `tokenizer` names, where it has been read already; null: it is read.
    std::shared_ptr<const Tokenizer> ready;
    bool named = true;  // false: nobody asks for the digest, and nothing is hashed
  };

  static constexpr uint64_t kAnyVocabulary = 0xffffffff;

  // NOT_FOUND: no such path. INVALID_ARGUMENT: empty, not of its format, an id that the vocabulary
  // has not: the message names the file and the byte. DATA_LOSS: a prepared folder's files are not
  // those that its data.json names.
  static absl::StatusOr<std::unique_ptr<TokenSource>> Open(const std::string& path,
                                                           const Options& options);

  // Of bytes that are in memory.
  static absl::StatusOr<std::unique_ptr<TokenSource>> FromText(std::string text,
                                                               double validation_fraction);

  const TokenSpan& train() const { return train_; }
  const TokenSpan& validation() const { return validation_; }

  // Of conversations: what stands beside these tokens. Null: of anything else, every token counts.
  const TokenMarks* train_marks() const { return kind_ == "chat" ? &train_marks_ : nullptr; }
  const TokenMarks* validation_marks() const {
    return kind_ == "chat" ? &validation_marks_ : nullptr;
  }

  // What the run calls this data, 32 bytes: of plain bytes the SHA-256 of them all, joining
  // newlines included. Empty where it is not named.
  const std::string& digest() const { return digest_; }

  // What was found: a kind of Options.
  const std::string& kind() const { return kind_; }

  // What its owner should know: what was left out or skipped, what stands between two documents. A
  // sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  // Null: the tokens are of a tokenizer that is not known here.
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
  void Name(const Options& options);

  std::string kind_;
  std::string text_;  // of several files, of lines of JSON, of tokens made here
  std::vector<MappedFile> files_;
  MappedText mapped_text_;  // of one file that is taken as it is
  std::shared_ptr<const Tokenizer> tokenizer_;
  TokenSpan train_, validation_;
  TokenMarks train_marks_, validation_marks_;  // of conversations
  std::string digest_;
  std::vector<std::string> notes_;
};

}  // namespace atolld
