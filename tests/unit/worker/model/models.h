// Small models of every kind, and the generator of the references' values.
#pragma once

#include <cstdint>

#include "atoll/v1/run.pb.h"
#include "tests/unit/worker/training/fixtures.h"

namespace atolld {

// The generator of make_gpt_reference.py and make_model_reference.py.
class Lcg {
 public:
  uint32_t Next() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }

 private:
  uint32_t state_ = 12345;
};

inline v1::ModelSpec TinyGpt2() {
  v1::ModelSpec model = TinySpec().model();
  model.set_kind("gpt2");
  model.set_heads(4);
  model.set_kv_heads(4);
  model.set_hidden(64);
  model.set_norm_epsilon(1e-5);
  return model;
}

// With grouped queries and a head of its own.
inline v1::ModelSpec TinyLlama() {
  v1::ModelSpec model = TinySpec().model();
  model.set_kind("llama");
  model.set_heads(4);
  model.set_kv_heads(2);
  model.set_hidden(24);
  model.set_untied(true);
  model.set_rope_theta(100);
  model.set_norm_epsilon(1e-5);
  return model;
}

}  // namespace atolld
