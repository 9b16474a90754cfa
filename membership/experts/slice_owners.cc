#include "membership/experts/slice_owners.h"

#include <utility>

#include "membership/experts/expert_parts.h"

namespace atolld {

void SliceOwners::NoteRank(const std::string& peer, uint32_t lora_rank) {
  owned_[peer] = lora_rank == 0 ? OwnsAll(slices_) : OwnsFirst(lora_rank / slice_ranks_, slices_);
}

// Only those that are there stay.
void SliceOwners::Assign(uint64_t version, const std::vector<std::string>& peers) {
  version_ = version;
  Owned there;
  for (const std::string& peer : peers) there[peer] = OwnedBy(peer);
  owned_ = std::move(there);
}

std::string SliceOwners::OwnedBy(absl::string_view peer) const {
  const auto known = owned_.find(peer);
  return known == owned_.end() ? OwnsAll(slices_) : known->second;
}

}  // namespace atolld
