#include "daemon/exchange/exchange_plan.h"

#include <cmath>
#include <utility>

#include "absl/base/casts.h"
#include "compression/base/bitmap.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/agreement.h"
#include "membership/history/digest.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

constexpr uint32_t kMostContributorsInAll = 65536;  // the most that a header may name

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

}  // namespace

absl::StatusOr<ExchangePlan> ExchangePlan::Make(const v1::Plan& plan, const ChunkGrid& grid) {
  const std::string context =
      absl::StrCat("round ", plan.version(), ": plan of revision ", plan.revision());
  ExchangePlan made;
  made.grid_ = grid;
  made.version_ = plan.version();
  made.epoch_ = plan.epoch();
  made.revision_ = plan.revision();
  made.from_centre_ = FromCentre(plan);
  made.brief_ = IsBrief(plan);
  if (plan.parameters() != grid.elements()) {
    return Invalid(absl::StrCat(context, ": ", plan.parameters(), " parameters, the run has ",
                                grid.elements()));
  }
  RETURN_IF_ERROR(Annotate(made.AddContributors(plan), context));
  for (const v1::Shard& shard : plan.shards()) {
    const std::string which = absl::StrCat(context, ": shard ", made.shards_.size());
    RETURN_IF_ERROR(Annotate(made.AddShard(shard), which));
  }
  if (made.shard_of_.size() != grid.chunks()) {
    return Invalid(absl::StrCat(context, ": its shards end at chunk ", made.shard_of_.size(),
                                " of ", grid.chunks()));
  }
  return made;
}

absl::Status ExchangePlan::AddContributors(const v1::Plan& plan) {
  if (plan.contributors().empty() && !brief_) return Invalid("no contributors");
  if (plan.contributor_count() > kMostContributorsInAll) {
    return Invalid(absl::StrCat(plan.contributor_count(), " contributors"));
  }
  lost_ = {plan.lost().begin(), plan.lost().end()};
  contributors_.resize(brief_ ? plan.contributor_count()
                              : static_cast<size_t>(plan.contributors_size()));
  if (brief_ && plan.positions_size() != plan.contributors_size()) {
    return Invalid("it does not say which contributors it names");
  }
  for (int i = 0; i < plan.contributors_size(); ++i) {
    const uint32_t place = brief_ ? plan.positions(i) : static_cast<uint32_t>(i);
    if (place >= contributors_.size() || (brief_ && i > 0 && place <= plan.positions(i - 1))) {
      return Invalid(absl::StrCat("it names contributor ", place, " of ", contributors_.size(),
                                  ", which does not exist or is out of order"));
    }
    RETURN_IF_ERROR(AddContributor(plan.contributors(i), place));
  }
  return absl::OkStatus();
}

absl::Status ExchangePlan::AddContributor(const v1::PlanMember& member, uint32_t place) {
  const float weight = absl::bit_cast<float>(member.weight_bits());
  if (!(weight > 0) || !std::isfinite(weight)) {
    return Invalid(absl::StrCat("weight of ", member.peer(), " is not above 0 and finite"));
  }
  const float scale = member.scale_bits() == 0 ? 1 : absl::bit_cast<float>(member.scale_bits());
  if (!(scale > 0 && scale <= kLargestUpdateScale)) {
    return Invalid(absl::StrCat("scale of ", member.peer(), " is not above 0 and up to ",
                                kLargestUpdateScale));
  }
  if (!index_.emplace(member.peer(), place).second) {
    return Invalid(absl::StrCat(member.peer(), " contributes twice"));
  }
  if (!member.contribution_root().empty() && member.contribution_root().size() != sizeof(Digest)) {
    return Invalid(absl::StrCat("root of ", member.peer(), " is not 32 bytes"));
  }
  if (member.contribution_root().empty() && !member.signing_key().empty()) {
    return Invalid(absl::StrCat(member.peer(), " has a key and no root that it has signed"));
  }
  if (!ValidOwned(member.owned(), grid_.experts())) {
    return Invalid(absl::StrCat("what ", member.peer(), " owns is not a bitmap of ",
                                Counted(grid_.experts(), "expert")));
  }
  contributors_[place] = {member.peer(),
                          weight,
                          scale,
                          lost_.count(member.peer()) != 0,
                          member.contribution_root(),
                          absl::bit_cast<double>(member.squared_norm_bits()),
                          brief_ ? member.root_mark() : RootMark(member.contribution_root()),
                          member.signing_key(),
                          member.signature(),
                          brief_,
                          member.owned()};
  addresses_[member.peer()] = member.address();
  return absl::OkStatus();
}

void ExchangePlan::Complete(const ExchangePlan& whole) {
  contributors_ = whole.contributors_;
  for (Contributor& contributor : contributors_) {
    contributor.lost = contributor.lost || lost_.count(contributor.peer) > 0;
  }
  index_ = whole.index_;
  for (const auto& [peer, address] : whole.addresses_) addresses_.emplace(peer, address);
  brief_ = whole.brief_;
}

bool ExchangePlan::Contributor::IsSame(const Contributor& other) const {
  if (peer.empty() || other.peer.empty())
    return true;  // a brief plan does not name this
                  // contributor
  const bool known = !in_brief && !other.in_brief;
  return other.peer == peer && other.weight == weight && other.scale == scale &&
         other.root_mark == root_mark && other.owned == owned &&
         (!known ||
          (other.root == root && other.signing_key == signing_key && other.signature == signature));
}

bool ExchangePlan::Reachable(const std::string& peer) const {
  return IndexOf(peer).has_value() && !AddressOf(peer).empty();
}

absl::Status ExchangePlan::CheckRelays(const v1::Shard& shard) const {
  std::string seen(BitmapBytes(contributors_.size()), '\0');
  for (const v1::Relay& relay : shard.relays()) {
    if (!Reachable(relay.peer())) {
      return Invalid(
          absl::StrCat("its relay ", relay.peer(), " is not a contributor with an address"));
    }
    if (relay.peer() == shard.reducer()) {
      return Invalid(absl::StrCat("its relay ", relay.peer(), " is its reducer"));
    }
    if (!ValidBitmap(relay.members(), contributors_.size())) {
      return Invalid(absl::StrCat("the group of ", relay.peer(), " does not fit the contributors"));
    }
    if (!BitAt(relay.members(), *IndexOf(relay.peer()))) {
      return Invalid(absl::StrCat("its relay ", relay.peer(), " is outside its own group"));
    }
    if (Overlap(relay.members(), seen)) {
      return Invalid(absl::StrCat("the group of ", relay.peer(), " overlaps another"));
    }
    UniteBits(relay.members(), &seen);
  }
  return absl::OkStatus();
}

absl::Status ExchangePlan::AddShard(const v1::Shard& shard) {
  const uint32_t index = static_cast<uint32_t>(shards_.size());
  const uint64_t end = uint64_t{shard.first_chunk()} + shard.chunks();
  if (shard.first_chunk() != shard_of_.size() || end > grid_.chunks()) {
    return Invalid("it does not follow the one before it");
  }
  if (shard.reducer().empty()) return Invalid("it has no reducer");
  if (shard.attempt() == 0) return Invalid("it has attempt 0");
  RETURN_IF_ERROR(CheckRelays(shard));
  Shard made{shard.first_chunk(),
             shard.chunks(),
             shard.reducer(),
             shard.attempt(),
             shard.holder(),
             {},
             nullptr};
  if (!made.holder.empty()) {
    if (!Reachable(made.holder) || contributors_[*IndexOf(made.holder)].lost) {
      return Invalid(absl::StrCat("its holder ", made.holder,
                                  " is not a contributor with an address that is still there"));
    }
  } else {
    for (const v1::Relay& relay : shard.relays()) {
      const uint32_t contributor = *IndexOf(relay.peer());
      if (contributors_[contributor].lost) continue;
      made.relays.push_back({contributor, relay.members()});
    }
    made.relay_of = IndexRelays(made.relays);
  }
  if (made.chunks != 0) {
    servers_.insert(made.holder.empty() ? made.reducer : made.holder);
    has_relays_ = has_relays_ || !made.relays.empty();
    for (const Relay& relay : made.relays) servers_.insert(contributors_[relay.contributor].peer);
  }
  // A contributor's own address has precedence over the shard's.
  std::string& address = addresses_[made.reducer];
  if (address.empty()) address = shard.address();
  shards_.push_back(std::move(made));
  shard_of_.resize(static_cast<size_t>(end), index);
  return absl::OkStatus();
}

std::shared_ptr<const std::vector<uint32_t>> ExchangePlan::IndexRelays(
    const std::vector<Relay>& relays) const {
  if (relays.empty()) return nullptr;
  auto relay_of = std::make_shared<std::vector<uint32_t>>(contributors_.size(), kNoRelay);
  for (size_t r = 0; r < relays.size(); ++r) {
    for (size_t i = 0; i < contributors_.size(); ++i) {
      if (BitAt(relays[r].members, i)) (*relay_of)[i] = static_cast<uint32_t>(r);
    }
  }
  return relay_of;
}

std::optional<uint32_t> ExchangePlan::IndexOf(absl::string_view contributor) const {
  const auto found = index_.find(contributor);
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

bool ExchangePlan::Brings(uint32_t contributor, uint32_t chunk) const {
  return Planted(PlantedBug::kForeignExpertTaken) ||
         Covers(contributors_[contributor].owned, grid_.Part(chunk));
}

bool ExchangePlan::MayBeMeanOf(absl::string_view bitmap, uint32_t chunk) const {
  const bool shared = grid_.Part(chunk) == 0;
  if (shared || CountBits(bitmap) > 0) {
    if (!ValidBitmap(bitmap, contributors_.size())) return false;
  } else if (bitmap.size() != BitmapBytes(contributors_.size())) {
    return false;
  }
  for (uint32_t i = 0; i < contributors_.size() && !shared; ++i) {
    if (BitAt(bitmap, i) && !Brings(i, chunk)) return false;
  }
  return true;
}

std::string ExchangePlan::AddressOf(absl::string_view server) const {
  const auto found = addresses_.find(server);
  return found == addresses_.end() ? std::string() : found->second;
}

const ExchangePlan::Relay* ExchangePlan::RelayOf(const Shard& shard, uint32_t contributor) const {
  if (shard.relay_of == nullptr) return nullptr;
  const uint32_t relay = (*shard.relay_of)[contributor];
  return relay == kNoRelay ? nullptr : &shard.relays[relay];
}

const ExchangePlan::Relay* ExchangePlan::RelayNamed(const Shard& shard,
                                                    absl::string_view peer) const {
  if (shard.relay_of == nullptr) return nullptr;
  const std::optional<uint32_t> contributor = IndexOf(peer);
  if (!contributor.has_value()) return nullptr;
  // A relay is in its own group.
  const Relay* const relay = RelayOf(shard, *contributor);
  return relay != nullptr && relay->contributor == *contributor ? relay : nullptr;
}

absl::string_view ExchangePlan::CollectorOf(const Shard& shard, uint32_t contributor) const {
  if (!shard.holder.empty()) return {};
  const Relay* const relay = RelayOf(shard, contributor);
  return relay == nullptr ? shard.reducer : contributors_[relay->contributor].peer;
}

absl::string_view ExchangePlan::TargetOf(const Shard& shard, uint32_t contributor) const {
  const absl::string_view collector = CollectorOf(shard, contributor);
  if (collector != contributors_[contributor].peer) return collector;
  return collector == shard.reducer ? absl::string_view() : shard.reducer;
}

absl::string_view ExchangePlan::SourceOf(const Shard& shard, absl::string_view peer) const {
  if (!shard.holder.empty()) return peer == shard.holder ? absl::string_view() : shard.holder;
  if (peer == shard.reducer) return {};
  const std::optional<uint32_t> contributor = IndexOf(peer);
  return contributor.has_value() ? TargetOf(shard, *contributor) : shard.reducer;
}

absl::Status ExchangePlan::CheckProof(const std::string& run_id, uint32_t contributor) const {
  const Contributor& one = contributors_[contributor];
  if (one.signing_key.empty()) return absl::OkStatus();
  return CheckContributionProof(run_id, version_,
                                {one.peer, one.root, one.signing_key, one.signature});
}

absl::Status ExchangePlan::CheckSuccessor(const ExchangePlan& next) const {
  const auto bad = [&](absl::string_view what) {
    return Invalid(
        absl::StrCat("round ", version_, ": plan of revision ", next.revision_, ": ", what));
  };
  if (next.version_ != version_ || next.epoch_ != epoch_) return bad("of another entry");
  bool same = next.contributors_.size() == contributors_.size();
  for (size_t i = 0; same && i < contributors_.size(); ++i) {
    same = contributors_[i].IsSame(next.contributors_[i]);
  }
  if (!same || next.from_centre_ != from_centre_)
    return bad(
        "its contributors, weights, scales or signed roots are not those of the revision before");
  if (next.shards_.size() != shards_.size()) return bad("it has another number of shards");
  for (size_t i = 0; i < shards_.size(); ++i) {
    const Shard& before = shards_[i];
    const Shard& after = next.shards_[i];
    if (after.first_chunk != before.first_chunk || after.chunks != before.chunks) {
      return bad("its shards are not cut as in the revision before");
    }
    if (after.attempt > before.attempt) continue;
    if (after.attempt < before.attempt || after.reducer != before.reducer) {
      return bad(absl::StrCat("shard ", i, " changes hands without a new attempt"));
    }
    if (!before.holder.empty() && after.holder.empty()) {
      return bad(absl::StrCat("shard ", i, " loses its holder without a new attempt"));
    }
  }
  return absl::OkStatus();
}

}  // namespace atolld
