// PartOwners: which parts of a run's model (expert_parts.h) each peer trains in a round, and thus
// owns.
//
// The coordinator assigns the experts of a mixture (expert_owners.h). The slices of adapters are
// not assigned: each peer says how many it trains (slice_owners.h). Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

class PartOwners {
 public:
  using Owned = std::map<std::string, std::string, std::less<>>;  // for each peer a bitmap

  virtual ~PartOwners() = default;

  // Called when a coordinator begins in the round after this header, which may be nullptr.
  virtual void Load(const v1::EntryHeader* header) = 0;
  // Called before Assign for each of its peers, and before a peer is told what it owns: the peer
  // trains this many first ranks of the adapters; 0 means all.
  virtual void NoteRank(const std::string& peer, uint32_t lora_rank) = 0;
  // Called when a peer offers an update that covers these parts.
  virtual void Adopt(const std::string& peer, const std::string& owned) = 0;
  // Says who owns what in round `version`, in which these peers are there.
  virtual void Assign(uint64_t version, const std::vector<std::string>& peers) = 0;
  // Returns true if Assign has nothing to do for this peer in this round.
  virtual bool Assigned(uint64_t version, absl::string_view peer) const = 0;
  // Called when the peer is told what it owns.
  virtual void NoteTold(const std::string& peer) = 0;
  // Returns a bitmap of what the peer owns; no bit is set if nothing was assigned to it.
  virtual std::string OwnedBy(absl::string_view peer) const = 0;
  // Returns the parts for which an update counts that the peer has trained on `trained`.
  virtual std::string Counted(absl::string_view peer, const std::string& trained) const = 0;
  // What peers own in this round, for the status.
  virtual const Owned& owned() const = 0;
};

}  // namespace atolld
