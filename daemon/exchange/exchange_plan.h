// ExchangePlan: one revision of an entry's plan, checked and indexed by chunk. It says which peer
// averages each chunk, and what each peer sends to which other peer.
//
// Law: all revisions of one (version, epoch) have the same contributors, with the same weights,
// scales and roots, and the same bounds of shards; a brief plan leaves some of these facts out. A
// shard's reducer changes only with its attempt, so (chunk, attempt) identifies one mean. Relays
// may change within an attempt. A holder may be set or replaced within an attempt, but only a new
// attempt removes it. Only Complete changes a plan after Make. A plan may be used from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"
#include "membership/history/payload.h"

namespace atolld {

class ExchangePlan {
 public:
  struct Contributor {
    // The contributor's id; if empty, a brief plan does not name the contributor, and the other
    // fields are unset.
    std::string peer;
    float weight = 1;
    float scale = 1;  // The factor by which the contributor's values are multiplied.
    bool lost = false;
    std::string root;  // The root of the contribution; empty if the plan does not have it.
    // The squared norm of the contribution, as the contributor reported it.
    double squared_norm = 0;
    uint32_t root_mark = 0;  // The mark of the root; also set in a brief plan.
    // The contributor's public key; empty if it signs nothing.
    std::string signing_key;
    // The signature of the root (membership/trust/contribution.h).
    std::string signature;
    // True if a brief plan names the contributor, with only the mark of its root.
    bool in_brief = false;
    std::string owned;  // With experts: a bitmap of those that the contribution covers.

    // Returns true if the fields that both have are equal.
    bool IsSame(const Contributor& other) const;
  };
  struct Relay {
    uint32_t contributor;  // The relay itself.
    std::string members;   // A bitmap of the relay's group, which includes the relay itself.
  };
  struct Shard {
    uint32_t first_chunk;
    uint32_t chunks;
    std::string reducer;
    uint32_t attempt;
    std::string holder;  // The holder's id; empty if the shard has no holder.
    // The relays that serve, without lost ones; empty if the shard has a holder.
    std::vector<Relay> relays;
    // Set if there are relays. For each contributor, it has the index of the relay whose group
    // includes the contributor, or kNoRelay.
    std::shared_ptr<const std::vector<uint32_t>> relay_of = nullptr;
  };
  static constexpr uint32_t kNoRelay = 0xffffffff;

  ExchangePlan() = default;

  // Fails with INVALID_ARGUMENT if no honest coordinator would write the plan; the message says
  // why. This is so if the shards do not tile the grid; if a weight is not finite and above 0, or a
  // scale is above 1; if a root has another size, or is missing although the contributor signs; if
  // a name occurs twice, or there are no contributors; if a relay or holder is not a contributor or
  // has no address; if a relay is the shard's reducer or outside its own group; if groups overlap;
  // or if a holder is lost.
  static absl::StatusOr<ExchangePlan> Make(const v1::Plan& plan, const ChunkGrid& grid);

  uint64_t version() const { return version_; }
  uint64_t epoch() const { return epoch_; }
  uint32_t revision() const { return revision_; }
  // True if the plan is brief. A peer that serves no other peer gets a brief plan, which names only
  // that peer and the serving peers, without roots.
  bool brief() const { return brief_; }
  // Copies from `whole` the facts about contributors that this plan lacks. `whole` must be the same
  // plan except for its revision.
  void Complete(const ExchangePlan& whole);
  // The contributors, in roster order.
  const std::vector<Contributor>& contributors() const { return contributors_; }
  const std::vector<Shard>& shards() const { return shards_; }
  // The reducers, relays and holders of all shards that have chunks.
  const std::set<std::string>& servers() const { return servers_; }
  bool has_relays() const { return has_relays_; }
  bool from_centre() const { return from_centre_; }  // See membership/history/agreement.h.
  uint32_t chunks() const { return static_cast<uint32_t>(shard_of_.size()); }

  uint32_t ShardIndexOf(uint32_t chunk) const { return shard_of_[chunk]; }
  const Shard& ShardOf(uint32_t chunk) const { return shards_[shard_of_[chunk]]; }
  std::optional<uint32_t> IndexOf(absl::string_view contributor) const;
  // Returns true if the contribution covers this chunk: only then does its contributor send it.
  bool Brings(uint32_t contributor, uint32_t chunk) const;
  // Returns true if an honest reducer may say that the chunk's mean is that of these contributors:
  // they bring it, and only an expert's chunk has a mean of nobody. A brief plan does not know what
  // the contributors bring that it does not name.
  bool MayBeMeanOf(absl::string_view bitmap, uint32_t chunk) const;
  // Returns the address of a server; empty if the plan does not have it.
  std::string AddressOf(absl::string_view server) const;

  // Returns the relay whose group includes this contributor, which may be the contributor itself;
  // nullptr if there is no such relay.
  const Relay* RelayOf(const Shard& shard, uint32_t contributor) const;
  // Returns the shard's relay with this name, or nullptr if the peer is not one of its relays.
  const Relay* RelayNamed(const Shard& shard, absl::string_view peer) const;
  // Returns the peer that averages this contributor's chunks, which may be the contributor itself;
  // empty if the shard has a holder.
  absl::string_view CollectorOf(const Shard& shard, uint32_t contributor) const;
  // Returns the peer to which this contributor sends; empty if it sends to no peer. A relay sends
  // its partial means, other contributors send their own chunks.
  absl::string_view TargetOf(const Shard& shard, uint32_t contributor) const;
  // Returns the peer from which `peer` gets the shard's means; empty if `peer` makes or holds them
  // itself. The plan need not name `peer`.
  absl::string_view SourceOf(const Shard& shard, absl::string_view peer) const;

  // Fails with INVALID_ARGUMENT if the contributor has a key but its root is not signed with this
  // key. The check takes about 100 microseconds, so only peers that average or audit the
  // contributor's chunks make it.
  absl::Status CheckProof(const std::string& run_id, uint32_t contributor) const;

  // Fails with INVALID_ARGUMENT if `next` is not a later revision of this plan that keeps the law
  // at the top of this header.
  absl::Status CheckSuccessor(const ExchangePlan& next) const;

 private:
  absl::Status AddContributors(const v1::Plan& plan);
  absl::Status AddContributor(const v1::PlanMember& member, uint32_t place);
  absl::Status AddShard(const v1::Shard& shard);
  absl::Status CheckRelays(const v1::Shard& shard) const;
  std::shared_ptr<const std::vector<uint32_t>> IndexRelays(const std::vector<Relay>& relays) const;
  // Returns true if the peer is a contributor with an address.
  bool Reachable(const std::string& peer) const;

  ChunkGrid grid_;
  uint64_t version_ = 0;
  uint64_t epoch_ = 0;
  uint32_t revision_ = 0;
  bool brief_ = false;
  bool from_centre_ = false;
  bool has_relays_ = false;
  std::vector<Contributor> contributors_;
  std::set<std::string> lost_;
  std::map<std::string, uint32_t, std::less<>> index_;
  std::vector<Shard> shards_;
  std::vector<uint32_t> shard_of_;  // The shard of each chunk.
  std::set<std::string> servers_;
  std::map<std::string, std::string, std::less<>> addresses_;
};

}  // namespace atolld
