#include "membership/run/roster_news.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"

namespace atolld {
namespace {

// A message to one peer costs the coordinator about 50 microseconds, so telling changes takes at
// most a tenth of a core.
constexpr absl::Duration kPauseForEach = absl::Microseconds(500);
constexpr int64_t kToldAtOnce = 4;  // informing so few peers costs nothing

bool Same(const v1::Offer& a, const v1::Offer& b) {
  return a.oldest_entry() == b.oldest_entry() && a.has_snapshot() == b.has_snapshot() &&
         a.snapshot_version() == b.snapshot_version();
}

// Nearly all members move to a new version with each commit, and no peer acts on that before the
// seal.
bool Same(const v1::Member& told, const RosterMember& member, bool sealed) {
  return told.state() == MemberStateName(member.state) && told.address() == member.address &&
         told.region() == member.region && told.has_state() == member.has_state &&
         told.unreachable() == member.unreachable && told.has_offer() == member.offer.has_value() &&
         (!member.offer || Same(told.offer(), *member.offer)) &&
         (!sealed || told.version() == member.version);
}

// Merges `news` and `gone`, which are ascending, into ascending members.
void Merge(const v1::RosterDelta& delta, v1::Roster* roster) {
  const std::set<absl::string_view> gone(delta.gone().begin(), delta.gone().end());
  v1::Roster merged;
  auto news = delta.changed().begin();
  for (v1::Member& member : *roster->mutable_members()) {
    while (news != delta.changed().end() && news->peer() < member.peer()) {
      *merged.add_members() = *news++;
    }
    if (news != delta.changed().end() && news->peer() == member.peer()) {
      *merged.add_members() = *news++;
    } else if (gone.empty() || gone.count(member.peer()) == 0) {
      merged.add_members()->Swap(&member);
    }
  }
  while (news != delta.changed().end()) *merged.add_members() = *news++;
  roster->mutable_members()->Swap(merged.mutable_members());
}

}  // namespace

absl::Status Follow(const v1::RosterDelta& delta, v1::Roster* roster) {
  if (delta.number() != roster->number() + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "change ", delta.number(), " of its roster comes after change ", roster->number()));
  }
  for (int i = 1; i < delta.changed_size(); ++i) {
    if (delta.changed(i - 1).peer() < delta.changed(i).peer()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("change ", delta.number(), " of its roster is not in roster order"));
  }
  roster->set_number(delta.number());
  if (!delta.changed().empty() || !delta.gone().empty()) Merge(delta, roster);
  if (delta.keys_changed()) *roster->mutable_revoked() = delta.revoked();
  std::set<std::string> awaited(roster->awaited().begin(), roster->awaited().end());
  awaited.insert(delta.awaited().begin(), delta.awaited().end());
  for (const std::string& peer : delta.arrived()) awaited.erase(peer);
  *roster->mutable_awaited() = {awaited.begin(), awaited.end()};
  return absl::OkStatus();
}

void RosterNews::Compare(const Roster& roster, bool sealed, v1::RosterDelta* delta) {
  auto told = told_.begin();
  for (const auto& [peer, member] : roster.members()) {
    while (told != told_.end() && told->first < peer) {
      delta->add_gone(told->first);
      told = told_.erase(told);
    }
    const bool known = told != told_.end() && told->first == peer;
    if (!known || !Same(told->second, member, sealed)) {
      *delta->add_changed() = Roster::ToProto(member);
      told = told_.insert_or_assign(told, peer, *delta->changed().rbegin());
    }
    ++told;
  }
  while (told != told_.end()) {
    delta->add_gone(told->first);
    told = told_.erase(told);
  }
}

void RosterNews::SetRevoked(std::vector<v1::RevokedKey> keys) {
  revoked_ = std::move(keys);
  changed_ = hurry_ = keys_changed_ = true;
}

RunOutput::Message RosterNews::Take(absl::Time now, const Roster& roster, bool sealed,
                                    absl::Span<const std::string> awaited) {
  changed_ = hurry_ = false;
  const bool insists = std::exchange(insist_, false);
  auto message = std::make_shared<v1::CoordinatorMessage>();
  v1::RosterDelta* const delta = message->mutable_roster_delta();
  Compare(roster, sealed, delta);
  std::set<std::string> by_now(awaited.begin(), awaited.end());
  for (const std::string& peer : by_now) {
    if (awaited_.count(peer) == 0) delta->add_awaited(peer);
  }
  for (const std::string& peer : awaited_) {
    if (by_now.count(peer) == 0) delta->add_arrived(peer);
  }
  awaited_ = std::move(by_now);
  if (std::exchange(keys_changed_, false)) {
    told_revoked_ = revoked_;
    delta->set_keys_changed(true);
    *delta->mutable_revoked() = {told_revoked_.begin(), told_revoked_.end()};
  }
  const bool news = delta->keys_changed() || !delta->changed().empty() || !delta->gone().empty() ||
                    !delta->awaited().empty() || !delta->arrived().empty();
  if (!news && !insists) return nullptr;
  delta->set_number(++number_);
  if (Planted(PlantedBug::kRosterChangeLost) && number_ % 4 == 0) delta->clear_changed();
  whole_ = nullptr;
  const auto many = static_cast<int64_t>(roster.members().size()) - kToldAtOnce;
  next_ = now + std::min(std::max<int64_t>(many, 0) * kPauseForEach, failure_timeout_ / 8);
  return message;
}

const RunOutput::Message& RosterNews::Whole() {
  if (whole_ != nullptr) return whole_;
  auto message = std::make_shared<v1::CoordinatorMessage>();
  v1::Roster* const roster = message->mutable_roster();
  roster->set_number(number_);
  for (const auto& [peer, member] : told_) *roster->add_members() = member;
  for (const std::string& peer : awaited_) roster->add_awaited(peer);
  *roster->mutable_revoked() = {told_revoked_.begin(), told_revoked_.end()};
  whole_ = std::move(message);
  return whole_;
}

}  // namespace atolld
