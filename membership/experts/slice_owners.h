// SliceOwners: which slices of adapters each peer trains (ModelSpec.lora_slice). Each peer says the
// rank up to which it trains; those are the first slices, so the first slice has the most peers.
//
// An update counts for all slices that it was trained on, whatever the peer says since. The state
// is not stored: after a restart every peer says its rank again. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "membership/experts/part_owners.h"

namespace atolld {

class SliceOwners final : public PartOwners {
 public:
  // A run whose adapters have `slices` slices of `slice_ranks` ranks each.
  SliceOwners(uint32_t slices, uint32_t slice_ranks) : slices_(slices), slice_ranks_(slice_ranks) {}

  void Load(const v1::EntryHeader*) override {}
  void NoteRank(const std::string& peer, uint32_t lora_rank) override;
  // A peer that goes on after a restart of the coordinator is told nothing in that round.
  void Adopt(const std::string& peer, const std::string& owned) override { owned_[peer] = owned; }
  void Assign(uint64_t version, const std::vector<std::string>& peers) override;
  bool Assigned(uint64_t version, absl::string_view peer) const override {
    return version == version_ && owned_.count(peer) > 0;
  }
  void NoteTold(const std::string&) override {}
  std::string OwnedBy(absl::string_view peer) const override;
  std::string Counted(absl::string_view, const std::string& trained) const override {
    return trained;
  }
  const Owned& owned() const override { return owned_; }

 private:
  const uint32_t slices_;
  const uint32_t slice_ranks_;
  uint64_t version_ = 0;  // of the last Assign
  Owned owned_;
};

}  // namespace atolld
