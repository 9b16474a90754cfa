#include "worker/data/token_model.h"

namespace atolld {

absl::optional<uint32_t> TokenTable::IdOf(const std::string& token) const {
  const auto found = id_of.find(token);
  if (found == id_of.end()) return absl::nullopt;
  return found->second;
}

}  // namespace atolld
