#include "membership/experts/slice_owners.h"

#include "membership/experts/expert_parts.h"

namespace atolld {

void SliceOwners::NoteRank(const std::string& peer, uint32_t lora_rank) {
  ranks_[peer] = lora_rank;
  owned_.erase(peer);  // until it is told what to train
}

void SliceOwners::Assign(uint64_t version, const std::vector<std::string>& peers) {
  version_ = version;
  owned_.clear();
  for (const std::string& peer : peers) owned_[peer] = OwnedBy(peer);
}

std::string SliceOwners::OwnedBy(absl::string_view peer) const {
  const auto said = ranks_.find(peer);
  const uint32_t rank = said == ranks_.end() ? 0 : said->second;
  return rank == 0 ? OwnsAll(slices_) : OwnsFirst(rank / slice_ranks_, slices_);
}

void SliceOwners::Forget(const std::string& peer) {
  ranks_.erase(peer);
  owned_.erase(peer);
}

}  // namespace atolld
