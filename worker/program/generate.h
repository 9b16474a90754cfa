// Generates text from a model: samples one token after another from the model's prediction, and
// decides where the text ends.
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
  std::string prompt;        // If empty, the prompt is a newline, as in nanoGPT.
  uint64_t tokens = 200;     // The number of tokens to sample.
  double temperature = 0.8;  // If it is 0, the likeliest token is always taken.
  uint64_t top_k = 0;        // Only the k likeliest tokens are sampled; 0 means all of them.
  double top_p = 1;  // Only the likeliest tokens that together have this probability are sampled.
  uint64_t seed = 1337;
};

// Calls `sink` with each token as it is sampled; `sink` returns false to stop early. The same
// arguments give the same text on the same machine. `tokenizer` encodes the prompt and must be the
// tokenizer of the run. Fails with INVALID_ARGUMENT if an option is invalid, or if `parameters` or
// the tokenizer does not fit the model.
absl::Status Generate(const v1::ModelSpec& spec, absl::Span<const float> parameters,
                      const Tokenizer& tokenizer, const GenerateOptions& options,
                      const std::function<bool(uint32_t)>& sink);

// Returns the index that a uniform draw `u` of [0, 1) picks from softmax(logits / temperature).
// Only the top_k likeliest take part, and of these only the fewest whose probabilities sum to top_p
// or more (nucleus sampling, Holtzman et al., arXiv:1904.09751); the likeliest always takes part.
size_t SampleIndex(absl::Span<const float> logits, double temperature, uint64_t top_k, double u,
                   double top_p = 1);

// Ends a text where the first of the stop strings occurs in it. The stop string itself is not
// shown.
//
// It takes the text byte by byte and returns the bytes that can already be shown, so that a text
// can be printed while it is generated. Bytes that may be the beginning of a stop string are held
// back until it is known whether they are. It does no I/O.
class StopStrings {
 public:
  // Empty strings in `stops` are ignored.
  explicit StopStrings(const std::vector<std::string>& stops);

  // Takes the next byte and returns the bytes that can now be shown. Must not be called once done()
  // is true.
  std::string Take(uint8_t byte);

  bool done() const { return done_; }

  // Returns the bytes that are still held back. Call this when the text has ended without a stop
  // string.
  std::string Rest();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool done_ = false;
};

}  // namespace atolld
