// The keys of [model] that say how a decoder differs from Llama. Pure. May be called from any
// thread.
#pragma once

#include <string>
#include <vector>

#include "compression/base/decoder.h"
#include "daemon/config/config_value.h"

namespace atolld {

// One key. The members have the same meaning as in ConfigField.
struct DecoderKey {
  std::string key;
  FieldValue value;
  std::string meaning;
  std::string advice;
};

// Returns the keys for the members of DecoderShape, in their order. They point into `shape`, which
// must outlive them.
std::vector<DecoderKey> DecoderKeys(DecoderShape* shape);

}  // namespace atolld
