// ExchangePlan: one revision of an entry's plan, checked and indexed by chunk.
//
// Law: under all revisions of one (version, epoch) the contributors and the shards' bounds stay the
// same, and a shard that begins again has a new attempt; so (chunk, attempt) names one mean.
// Immutable after Make; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/replica/payload.h"

namespace atolld {

class ExchangePlan {
 public:
  struct Contributor {
    std::string peer;
    float weight;
    bool lost;
  };
  struct Shard {
    uint32_t first_chunk;
    uint32_t chunks;
    std::string reducer;
    uint32_t attempt;
  };

  ExchangePlan() = default;

  // INVALID_ARGUMENT says what no honest coordinator writes: shards that do not tile the grid, a
  // weight that is not above 0 and finite, a name twice, no contributors.
  static absl::StatusOr<ExchangePlan> Make(const v1::Plan& plan, const ChunkGrid& grid);

  uint64_t version() const { return version_; }
  uint64_t epoch() const { return epoch_; }
  uint32_t revision() const { return revision_; }
  const std::vector<Contributor>& contributors() const { return contributors_; }  // roster order
  const std::vector<Shard>& shards() const { return shards_; }
  const std::set<std::string>& reducers() const { return reducers_; }  // that have chunks
  uint32_t chunks() const { return static_cast<uint32_t>(shard_of_.size()); }

  const Shard& ShardOf(uint32_t chunk) const { return shards_[shard_of_[chunk]]; }
  std::optional<uint32_t> IndexOf(absl::string_view contributor) const;
  // Where a reducer listens; empty if the plan does not say.
  std::string AddressOf(const std::string& reducer) const;
  // INVALID_ARGUMENT if `next` is not a later revision of this plan under the law above.
  absl::Status CheckSuccessor(const ExchangePlan& next) const;

 private:
  uint64_t version_ = 0;
  uint64_t epoch_ = 0;
  uint32_t revision_ = 0;
  std::vector<Contributor> contributors_;
  std::map<std::string, uint32_t, std::less<>> index_;
  std::vector<Shard> shards_;
  std::vector<uint32_t> shard_of_;  // by chunk
  std::set<std::string> reducers_;
  std::map<std::string, std::string> addresses_;
};

}  // namespace atolld
