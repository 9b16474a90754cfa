// The training data of a config ([data]): its sources, and the paths that a worker gets.
//
// The functions read only the files that the section names. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

inline constexpr char kByteTokenizer[] = "bytes";
inline constexpr char kCharTokenizer[] = "chars";

struct DataConfig {  // [data]
  std::string path;  // relative paths start at the config file's folder
  double validation_fraction = 0.1;
  std::string tokenizer = kByteTokenizer;  // or kCharTokenizer, or the path of a file
  // The field of each JSON line that holds the text; empty means "text".
  std::string field = "";
  std::string kind = "text";  // or "plain", "jsonl", "chat", "bin", "npy", "prepared"
  // The width of a token id (see BytesOfWidth); 0 means that the files give it.
  uint32_t width = 0;
  std::string end_of_text = "";      // if empty, the tokenizer's files give it
  std::string on_bad_line = "stop";  // or "skip"
  // [data] template: "chatml" or "llama3"; empty means no template
  std::string chat_template = "";
  std::string loss_on = "completions";  // or "all"
  std::string packing = "none";         // or "join"
  std::string sources = "";             // several sources instead of `path`: "books:0.7,code:0.3"
  // [data] private: `path` leads to different data on each peer
  bool is_private = false;
  std::string validation = "";  // with private data: a file on which all peers evaluate
};

// Returns true if the data are conversations (with a template), or prompts and completions (without
// one).
bool IsChat(const DataConfig& data);

// Returns the number of bytes of a token id. A `width` above 8 is a number of bits.
uint32_t BytesOfWidth(uint32_t width);

struct DataSource {
  std::string path;
  double weight = 1;
};

// Returns the sources that the section names: only `path`, or the list in `sources`. Returns an
// empty list if neither is set. Fails with INVALID_ARGUMENT if `sources` is malformed; the message
// says how.
absl::StatusOr<std::vector<DataSource>> SourcesOf(const DataConfig& data);

// Makes every path of the section absolute; relative ones start at `folder`.
void PlaceData(const std::string& folder, DataConfig* data);

// WorkerPlaces returns the text that the worker gets as Configure.data_path (worker.proto).
// WithTokenizer returns such a text with another file as the tokenizer.
std::string WorkerPlaces(const DataConfig& data);
std::string WithTokenizer(const std::string& places, const std::string& tokenizer);
bool IsTokenizerFile(const std::string& tokenizer);  // true if [data] tokenizer names a file

// Returns true if the number of tokens is only known from reading the text, because neither the
// tokenizer nor the data's form fixes [model] vocabulary 0.
bool NeedsCounting(const DataConfig& data);

// Returns the vocabulary size of the first source that is a folder of `atoll data prepare`; 0 if
// there is no such source.
uint64_t PreparedVocabulary(const DataConfig& data);

}  // namespace atolld
