// Token ids as a prepared folder's files hold them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atolld {

// Appends each id as `width` little-endian bytes; all must fit.
void AppendTokens(const std::vector<uint32_t>& tokens, uint32_t width, std::string* out);

}  // namespace atolld
