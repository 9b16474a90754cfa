#include "membership/run/adoption.h"

#include <algorithm>
#include <utility>

namespace atolld {

void Adoption::Add(const std::string& peer, uint64_t version, const std::string& header_digest) {
  Claim& claim = claims_[peer];
  claim.version = version;
  claim.header_digest = header_digest;
}

void Adoption::SetSamples(const std::string& peer, std::vector<v1::SampleRange> samples) {
  const auto it = claims_.find(peer);
  if (it != claims_.end()) it->second.samples = std::move(samples);
}

void Adoption::Remove(const std::string& peer) {
  claims_.erase(peer);
  silences_.erase(peer);
  Answered(peer);
}

uint64_t Adoption::longest() const {
  uint64_t longest = 0;
  for (const auto& [peer, claim] : claims_) longest = std::max(longest, claim.version);
  return longest;
}

std::string Adoption::Choose(absl::Time now, absl::Duration patience, const Roster& roster) {
  if (!asked_.empty()) {
    if (now < asked_at_ + patience) return "";
    ++silences_[asked_];
    asked_.clear();
  }
  std::string chosen;
  for (const auto& [peer, claim] : claims_) {
    const RosterMember* member = roster.Find(peer);
    if (claim.helpless || member == nullptr || !member->connected() || !member->present()) continue;
    if (chosen.empty()) {
      chosen = peer;
      continue;
    }
    const int less = silences(chosen) - silences(peer);
    const bool longer = claim.version > claims_.at(chosen).version;
    if (less > 0 || (less == 0 && longer)) chosen = peer;
  }
  return chosen;
}

void Adoption::Ask(absl::Time now, const std::string& peer) {
  asked_ = peer;
  asked_at_ = now;
}

void Adoption::Answered(const std::string& peer) {
  if (asked_ == peer) asked_.clear();
}

void Adoption::SetHelpless(const std::string& peer) {
  const auto it = claims_.find(peer);
  if (it != claims_.end()) it->second.helpless = true;
  Answered(peer);
}

bool Adoption::hopeless() const {
  return std::all_of(claims_.begin(), claims_.end(),
                     [](const auto& entry) { return entry.second.helpless; });
}

int Adoption::silences(const std::string& peer) const {
  const auto it = silences_.find(peer);
  return it == silences_.end() ? 0 : it->second;
}

absl::Time Adoption::Deadline(absl::Duration patience) const {
  return asked_.empty() ? absl::InfiniteFuture() : asked_at_ + patience;
}

}  // namespace atolld
