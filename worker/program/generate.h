// Text from a model: one token after the other, each sampled from what the model expects next; and
// where the text ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/data/tokenizer.h"

namespace atolld {

struct GenerateOptions {
  std::string prompt;        // empty: a newline, as nanoGPT begins
  uint64_t tokens = 200;     // to sample
  double temperature = 0.8;  // 0: always the likeliest
  uint64_t top_k = 0;        // sample among the k likeliest; 0: among all
  double top_p = 1;          // and of those among the likeliest that make up this share
  uint64_t seed = 1337;
};

// Calls `sink` with each token as it is sampled; it returns false to stop early. The same arguments
// give the same text on the same machine. `tokenizer` encodes the prompt and must be the run's.
// INVALID_ARGUMENT: `parameters`, an option or the tokenizer does not fit.
absl::Status Generate(const v1::ModelSpec& spec, absl::Span<const float> parameters,
                      const Tokenizer& tokenizer, const GenerateOptions& options,
                      const std::function<bool(uint32_t)>& sink);

// The index that a uniform draw `u` of [0, 1) picks from softmax(logits / temperature) over the
// top_k likeliest, and of these over the fewest whose probabilities make up top_p or more (nucleus
// sampling, Holtzman et al., arXiv:1904.09751); the likeliest is always among them.
size_t SampleIndex(absl::Span<const float> logits, double temperature, uint64_t top_k, double u,
                   double top_p = 1);

// Where a text ends: at the first of some strings, none of which is shown.
//
// Bytes go in one by one; out comes what can be shown already, so that a text can be printed as it
// is made: what may be the beginning of a stop is held back until it is clear. Pure.
class StopStrings {
 public:
  // Empty strings among `stops` are left out.
  explicit StopStrings(const std::vector<std::string>& stops);

  // What can be shown after the next byte. Once done() is true, no more bytes.
  std::string Take(uint8_t byte);

  bool done() const { return done_; }

  // What is still held back; a text that ends without a stop ends with it.
  std::string Rest();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool done_ = false;
};

}  // namespace atolld
