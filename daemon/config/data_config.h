// What a config says of the training data ([data]): its sources, and the paths that a worker is
// told.
//
// Pure functions, which read no more than the files that they name; any thread.
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
  std::string tokenizer = kByteTokenizer;  // or kCharTokenizer, or a file
  std::string field = "";                  // of lines of JSON; empty: "text"
  std::string kind = "text";               // or "plain", "jsonl", "chat", "bin", "npy", "prepared"
  uint32_t width = 0;                      // of a bare token id: BytesOfWidth; 0: as the files say
  std::string end_of_text = "";            // empty: as the tokenizer's files say
  std::string on_bad_line = "stop";        // or "skip"
  std::string chat_template = "";  // [data] template: "chatml" or "llama3"; empty: there is none
  std::string loss_on = "completions";  // or "all"
  std::string packing = "none";         // or "join"
  std::string sources = "";             // several in place of path: "books:0.7,code:0.3"
  bool is_private = false;              // [data] private: every peer's path holds data of its own
  std::string validation = "";          // with private data: a file that all evaluate on
};

// Whether it is conversations: with a template, or prompts and completions without one.
bool IsChat(const DataConfig& data);

// A width above 8 is in bits.
uint32_t BytesOfWidth(uint32_t width);

struct DataSource {
  std::string path;
  double weight = 1;
};

// The sources that the section names: `path` alone, or those of `sources`; none of neither.
// INVALID_ARGUMENT says what of `sources` is wrong.
absl::StatusOr<std::vector<DataSource>> SourcesOf(const DataConfig& data);

// Makes every path of the section absolute; relative ones start at `folder`.
void PlaceData(const std::string& folder, DataConfig* data);

// What the worker is told (Configure.data_path of worker.proto), and the same with another
// tokenizer's file.
std::string WorkerPlaces(const DataConfig& data);
std::string WithTokenizer(const std::string& places, const std::string& tokenizer);
bool IsTokenizerFile(const std::string& tokenizer);  // [data] tokenizer names one

// Whether only who reads the text can say how many tokens it comes to: [model] vocabulary 0 stands
// for no fixed number.
bool NeedsCounting(const DataConfig& data);

// How many tokens the first source knows that is a folder of `atoll data prepare`; 0: none is.
uint64_t PreparedVocabulary(const DataConfig& data);

}  // namespace atolld
