// Fixtures that several of the worker's tests share: a small run, a text that resembles real text,
// and a temporary folder.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "atoll/v1/run.pb.h"

namespace atolld {

// Returns the spec of a GPT that is so small that a step takes a millisecond.
inline v1::RunSpec TinySpec() {
  v1::RunSpec spec;
  spec.set_run_id("tiny");
  spec.set_numerics(1);
  spec.set_seed(1337);
  spec.mutable_model()->set_kind("gpt");
  spec.mutable_model()->set_layers(2);
  spec.mutable_model()->set_heads(2);
  spec.mutable_model()->set_width(16);
  spec.mutable_model()->set_context(16);
  spec.mutable_model()->set_vocabulary(256);
  spec.mutable_data()->set_kind("text");
  spec.mutable_data()->set_validation_fraction(0.2);
  spec.mutable_inner()->set_optimizer("adamw");
  spec.mutable_inner()->set_steps(4);
  spec.mutable_inner()->set_batch(4);
  spec.mutable_inner()->set_learning_rate(1e-2);
  spec.mutable_inner()->set_min_learning_rate(1e-3);
  spec.mutable_inner()->set_beta1(0.9);
  spec.mutable_inner()->set_beta2(0.99);
  spec.mutable_inner()->set_weight_decay(0.1);
  spec.mutable_inner()->set_gradient_clip(1.0);
  return spec;
}

// Returns sentences of common words in a fixed pseudo-random order, from which a model can learn
// something.
inline std::string SomeText(size_t bytes) {
  static const char* const kWords[] = {"the ",  "island ", "ring ", "of ",   "a ",    "lagoon ",
                                       "reef ", "and ",    "sea ",  "when ", "tide ", "turns.\n"};
  std::string text;
  uint32_t state = 1;
  while (text.size() < bytes) {
    state = state * 1664525u + 1013904223u;
    text += kWords[(state >> 16) % (sizeof(kWords) / sizeof(kWords[0]))];
  }
  text.resize(bytes);
  return text;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "atoll-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace atolld
