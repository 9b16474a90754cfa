// ExchangePlan: one revision of an entry's plan, checked and indexed by chunk: who averages what,
// and who sends what to whom.
//
// Law: under all revisions of one (version, epoch) the contributors, their weights, scales, roots
// and the shards' bounds stay the same (a brief plan says less of them); a shard's
// reducer changes only with its attempt; so (chunk, attempt) names one mean. Relays come and go
// within an attempt. A holder is set within an attempt and may change, but only a new attempt takes
// it away. Immutable after Make but for Complete; any thread.
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
    std::string peer;  // empty: a brief plan does not name it, and the rest says nothing
    float weight = 1;
    float scale = 1;  // what its values are multiplied by
    bool lost = false;
    std::string root;         // of its contribution; empty: nobody has told it
    double squared_norm = 0;  // of it, as it told
    uint32_t root_mark = 0;   // of the root, also where the plan is brief
    std::string signing_key;  // empty: it signs nothing
    std::string signature;    // of the root (membership/trust/contribution.h)
    bool in_brief = false;    // a brief plan names it: of its root only the mark is told

    bool IsSame(const Contributor& other) const;  // as far as both say what they are
  };
  struct Relay {
    uint32_t contributor;  // itself
    std::string members;   // bitmap; itself and others
  };
  struct Shard {
    uint32_t first_chunk;
    uint32_t chunks;
    std::string reducer;
    uint32_t attempt;
    std::string holder;         // empty: none
    std::vector<Relay> relays;  // that serve: a lost one counts as none, and so do all beside a
                                // holder
    // Where there are relays, by contributor: the position of the one whose group it is in, or
    // kNoRelay.
    std::shared_ptr<const std::vector<uint32_t>> relay_of = nullptr;
  };
  static constexpr uint32_t kNoRelay = 0xffffffff;

  ExchangePlan() = default;

  // INVALID_ARGUMENT says what no honest coordinator writes: shards that do not tile the grid, a
  // weight that is not above 0 and finite, a scale beyond 1, a root of another size, none of a
  // contributor that signs, a name twice, no contributors; a relay or holder that is no contributor
  // or has no address, a relay that is the shard's reducer or outside its own group, groups that
  // overlap, a holder that is lost.
  static absl::StatusOr<ExchangePlan> Make(const v1::Plan& plan, const ChunkGrid& grid);

  uint64_t version() const { return version_; }
  uint64_t epoch() const { return epoch_; }
  uint32_t revision() const { return revision_; }
  // Of a peer that serves nobody by it: it knows of itself and of those that serve, without roots.
  bool brief() const { return brief_; }
  // Takes what is known of contributors from `whole`, the same plan but for its revision.
  void Complete(const ExchangePlan& whole);
  const std::vector<Contributor>& contributors() const { return contributors_; }  // roster order
  const std::vector<Shard>& shards() const { return shards_; }
  // Reducers, relays and holders of shards that have chunks.
  const std::set<std::string>& servers() const { return servers_; }
  bool has_relays() const { return has_relays_; }
  bool from_centre() const { return from_centre_; }  // as membership/history/agreement.h has it
  uint32_t chunks() const { return static_cast<uint32_t>(shard_of_.size()); }

  uint32_t ShardIndexOf(uint32_t chunk) const { return shard_of_[chunk]; }
  const Shard& ShardOf(uint32_t chunk) const { return shards_[shard_of_[chunk]]; }
  std::optional<uint32_t> IndexOf(absl::string_view contributor) const;
  // Where a server listens; empty if the plan does not say.
  std::string AddressOf(absl::string_view server) const;

  // The relay whose group this contributor is in (perhaps itself); nullptr: in none.
  const Relay* RelayOf(const Shard& shard, uint32_t contributor) const;
  // Is this peer one of the shard's relays?
  const Relay* RelayNamed(const Shard& shard, absl::string_view peer) const;
  // Who averages this contributor's chunks (perhaps itself); empty beside a holder.
  absl::string_view CollectorOf(const Shard& shard, uint32_t contributor) const;
  // Whom this contributor sends what it has to: a relay its partial means, others their own chunks;
  // empty: nobody.
  absl::string_view TargetOf(const Shard& shard, uint32_t contributor) const;
  // From whom any peer, named in the plan or not, gets the shard's means; empty: it is their
  // origin.
  absl::string_view SourceOf(const Shard& shard, absl::string_view peer) const;

  // INVALID_ARGUMENT: the contributor has a key, and has not signed its root with it. Some 100
  // microseconds, so only whoever averages or audits what it gave asks for it.
  absl::Status CheckProof(const std::string& run_id, uint32_t contributor) const;

  // INVALID_ARGUMENT if `next` is not a later revision of this plan under the law above.
  absl::Status CheckSuccessor(const ExchangePlan& next) const;

 private:
  absl::Status AddContributors(const v1::Plan& plan);
  absl::Status AddContributor(const v1::PlanMember& member, uint32_t place);
  absl::Status AddShard(const v1::Shard& shard, const ChunkGrid& grid);
  absl::Status CheckRelays(const v1::Shard& shard) const;
  std::shared_ptr<const std::vector<uint32_t>> IndexRelays(const std::vector<Relay>& relays) const;
  bool Reachable(const std::string& peer) const;  // a contributor with an address

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
  std::vector<uint32_t> shard_of_;  // by chunk
  std::set<std::string> servers_;
  std::map<std::string, std::string, std::less<>> addresses_;
};

}  // namespace atolld
