// The keys of [model] that say how a decoder differs from Llama. Pure, any thread.
#pragma once

#include <string>
#include <vector>

#include "compression/base/decoder.h"
#include "daemon/config/config_value.h"

namespace atolld {

// As ConfigField has them.
struct DecoderKey {
  std::string key;
  FieldValue value;
  std::string meaning;
  std::string advice;
};

// Of DecoderShape, in its order; they borrow `shape`.
std::vector<DecoderKey> DecoderKeys(DecoderShape* shape);

}  // namespace atolld
