// ExpertOwners: which peers own which experts in a round.
//
// An owner stays an owner as long as it is there and has room. What lacks an owner goes to the
// peers that rank first for it: the rank of a peer for an expert is a hash of the run's seed, the
// expert and the peer (rendezvous hashing), so most experts stay where they are when a peer comes
// or goes. When a round begins no peer owns more than its share, which is ceil(experts x owners /
// peers). So nothing moves in the next round if nobody has come or gone. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "membership/experts/expert_parts.h"
#include "membership/experts/part_owners.h"

namespace atolld {

class ExpertOwners final : public PartOwners {
 public:
  // A run with `experts` experts, each of which `owners` peers own if there are so many.
  ExpertOwners(uint32_t experts, uint32_t owners, uint64_t seed)
      : experts_(experts), owners_(owners), seed_(seed) {}

  // A peer that contributed to the header owns what it owned, until the next round begins.
  void Load(const v1::EntryHeader* header) override;

  void NoteRank(const std::string&, uint32_t) override {}

  // In the round in which this coordinator has begun, a former one may have told the peer what it
  // owns, and so it stays: peers that were loaded and are not back yet give way.
  void Adopt(const std::string& peer, const std::string& owned) override;

  // Assigns the experts of round `version` among these peers, once in each round: later calls for
  // the same round change nothing but give peers that are new in it what lacks an owner. A peer
  // that goes away in a round stays an owner until its end, since it may come back with its update.
  void Assign(uint64_t version, const std::vector<std::string>& peers) override;

  bool Assigned(uint64_t version, absl::string_view peer) const override {
    return version == version_ && owned_.count(peer) > 0;
  }
  // What the peer is told stays until the next round begins.
  void NoteTold(const std::string& peer) override { told_.insert(peer); }
  std::string OwnedBy(absl::string_view peer) const override;
  // The experts that the peer still owns.
  std::string Counted(absl::string_view peer, const std::string& trained) const override;
  const Owned& owned() const override { return owned_; }

 private:
  uint64_t Rank(uint32_t expert, absl::string_view peer) const;
  void Trim(size_t wanted, size_t share);
  void Fill(uint32_t expert, const std::vector<std::string>& peers, size_t most);
  void Trade(uint32_t expert, const std::vector<std::string>& peers);
  size_t OwnersOf(uint32_t expert) const;

  const uint32_t experts_;
  const uint32_t owners_;
  const uint64_t seed_;
  uint64_t version_ = 0;  // of the last Assign or, before the first, the round of Load
  uint64_t loaded_ = 0;   // the round of Load
  std::set<std::string, std::less<>> told_;  // by this coordinator in this round
  std::set<std::string, std::less<>> back_;  // the peers that were adopted in the round of Load
  Owned owned_;
};

}  // namespace atolld
