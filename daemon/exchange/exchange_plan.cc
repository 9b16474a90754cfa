#include "daemon/exchange/exchange_plan.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "daemon/status_macros.h"

namespace atolld {
namespace {

float FloatFromBits(uint32_t bits) {
  float value;
  static_assert(sizeof(value) == sizeof(bits));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

absl::Status Invalid(const v1::Plan& plan, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("round ", plan.version(), ": plan of revision ", plan.revision(), ": ", what));
}

}  // namespace

absl::StatusOr<ExchangePlan> ExchangePlan::Make(const v1::Plan& plan, const ChunkGrid& grid) {
  ExchangePlan made;
  made.version_ = plan.version();
  made.epoch_ = plan.epoch();
  made.revision_ = plan.revision();
  if (plan.parameters() != grid.elements()) {
    return Invalid(plan,
                   absl::StrCat(plan.parameters(), " parameters, the run has ", grid.elements()));
  }
  if (plan.contributors().empty()) return Invalid(plan, "no contributors");
  const std::set<std::string> lost(plan.lost().begin(), plan.lost().end());
  for (const v1::PlanMember& member : plan.contributors()) {
    const float weight = FloatFromBits(member.weight_bits());
    if (!(weight > 0) || !std::isfinite(weight)) {
      return Invalid(plan, absl::StrCat("weight of ", member.peer(), " is not above 0 and finite"));
    }
    const uint32_t index = static_cast<uint32_t>(made.contributors_.size());
    if (!made.index_.emplace(member.peer(), index).second) {
      return Invalid(plan, absl::StrCat(member.peer(), " contributes twice"));
    }
    made.contributors_.push_back({member.peer(), weight, lost.count(member.peer()) != 0});
    made.addresses_[member.peer()] = member.address();
  }
  for (const v1::Shard& shard : plan.shards()) {
    const uint32_t index = static_cast<uint32_t>(made.shards_.size());
    const uint64_t end = uint64_t{shard.first_chunk()} + shard.chunks();
    if (shard.first_chunk() != made.shard_of_.size() || end > grid.chunks()) {
      return Invalid(plan, absl::StrCat("shard ", index, " does not follow the one before it"));
    }
    if (shard.reducer().empty())
      return Invalid(plan, absl::StrCat("shard ", index, " has no reducer"));
    if (shard.attempt() == 0) return Invalid(plan, absl::StrCat("shard ", index, " has attempt 0"));
    made.shards_.push_back({shard.first_chunk(), shard.chunks(), shard.reducer(), shard.attempt()});
    made.shard_of_.resize(static_cast<size_t>(end), index);
    if (shard.chunks() != 0) made.reducers_.insert(shard.reducer());
    // A contributor's own address goes before the shard's.
    std::string& address = made.addresses_[shard.reducer()];
    if (address.empty()) address = shard.address();
  }
  if (made.shard_of_.size() != grid.chunks()) {
    return Invalid(plan, absl::StrCat("its shards end at chunk ", made.shard_of_.size(), " of ",
                                      grid.chunks()));
  }
  return made;
}

std::optional<uint32_t> ExchangePlan::IndexOf(absl::string_view contributor) const {
  const auto found = index_.find(contributor);
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

std::string ExchangePlan::AddressOf(const std::string& reducer) const {
  const auto found = addresses_.find(reducer);
  return found == addresses_.end() ? std::string() : found->second;
}

absl::Status ExchangePlan::CheckSuccessor(const ExchangePlan& next) const {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", version_, ": plan of revision ", next.revision_, ": ", what));
  };
  if (next.version_ != version_ || next.epoch_ != epoch_) return bad("of another entry");
  bool same = next.contributors_.size() == contributors_.size();
  for (size_t i = 0; same && i < contributors_.size(); ++i) {
    same = next.contributors_[i].peer == contributors_[i].peer &&
           next.contributors_[i].weight == contributors_[i].weight;
  }
  if (!same) return bad("its contributors or weights are not those of the revision before");
  same = next.shards_.size() == shards_.size();
  for (size_t i = 0; same && i < shards_.size(); ++i) {
    const Shard& before = shards_[i];
    const Shard& after = next.shards_[i];
    same = after.first_chunk == before.first_chunk && after.chunks == before.chunks;
    if (same && (after.attempt < before.attempt ||
                 (after.attempt == before.attempt && after.reducer != before.reducer))) {
      return bad(absl::StrCat("shard ", i, " changes hands without a new attempt"));
    }
  }
  if (!same) return bad("its shards are not cut as in the revision before");
  return absl::OkStatus();
}

}  // namespace atolld
