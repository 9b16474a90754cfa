#include "worker/data/token_writer.h"

namespace atolld {

void AppendTokens(const std::vector<uint32_t>& tokens, uint32_t width, std::string* out) {
  const size_t start = out->size();
  out->resize(start + tokens.size() * width);
  char* to = out->data() + start;
  for (const uint32_t token : tokens) {
    for (uint32_t byte = 0; byte < width; ++byte) {
      *to++ = static_cast<char>(token >> (8 * byte));
    }
  }
}

}  // namespace atolld
