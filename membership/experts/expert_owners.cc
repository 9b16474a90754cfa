#include "membership/experts/expert_owners.h"

#include <algorithm>
#include <utility>

#include "compression/base/bitmap.h"
#include "compression/base/check.h"
#include "membership/experts/expert_parts.h"

namespace atolld {
namespace {

// FNV-1a with a final mix of SplitMix64: equal on every machine, and not secret.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

uint64_t ExpertOwners::Rank(uint32_t expert, absl::string_view peer) const {
  uint64_t hash = 0xcbf29ce484222325 ^ Mix(seed_ + expert);
  for (const char c : peer) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return Mix(hash);
}

void ExpertOwners::Load(const v1::EntryHeader* header) {
  version_ = loaded_ = header == nullptr ? 1 : header->version() + 1;
  owned_.clear();
  if (header == nullptr) return;
  for (const v1::Contributor& contributor : header->contributors()) {
    if (ValidOwned(contributor.owned(), experts_)) owned_[contributor.peer()] = contributor.owned();
  }
}

void ExpertOwners::Adopt(const std::string& peer, const std::string& owned) {
  if (version_ != loaded_ || told_.count(peer) > 0 || !back_.insert(peer).second) return;
  std::string& own = owned_[peer] = OwnsNothing(experts_);
  for (uint32_t expert = 0; expert < experts_; ++expert) {
    if (!BitAt(owned, expert)) continue;
    const auto stays = [&](const std::string& one) {
      return back_.count(one) + told_.count(one) > 0;
    };
    size_t owners = OwnersOf(expert);
    for (auto& [other, others] : owned_) {
      if (owners < owners_ || stays(other) || !BitAt(others, expert)) continue;
      ClearBit(&others, expert);
      --owners;
    }
    if (owners < owners_) SetBit(&own, expert);
  }
}

size_t ExpertOwners::OwnersOf(uint32_t expert) const {
  return static_cast<size_t>(std::count_if(
      owned_.begin(), owned_.end(), [&](const auto& one) { return BitAt(one.second, expert); }));
}

// Takes experts from peers that own more than their share, and from surplus owners of an expert: a
// peer that was away while another one took its place is back. Those that rank first keep them.
void ExpertOwners::Trim(size_t wanted, size_t share) {
  for (uint32_t expert = 0; expert < experts_; ++expert) {
    std::vector<std::pair<uint64_t, std::string*>> ranked;
    for (auto& [peer, owned] : owned_) {
      if (BitAt(owned, expert)) ranked.emplace_back(Rank(expert, peer), &owned);
    }
    std::sort(ranked.begin(), ranked.end(),
              [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = wanted; i < ranked.size(); ++i) ClearBit(ranked[i].second, expert);
  }
  for (auto& [peer, owned] : owned_) {
    std::vector<std::pair<uint64_t, uint32_t>> ranked;
    for (uint32_t expert = 0; expert < experts_; ++expert) {
      if (BitAt(owned, expert)) ranked.emplace_back(Rank(expert, peer), expert);
    }
    std::sort(ranked.rbegin(), ranked.rend());
    for (size_t i = share; i < ranked.size(); ++i) ClearBit(&owned, ranked[i].second);
  }
}

// Gives the expert to peers until it has enough owners: to those that rank first for it and own
// fewer than `most`.
void ExpertOwners::Fill(uint32_t expert, const std::vector<std::string>& peers, size_t most) {
  std::vector<std::pair<uint64_t, const std::string*>> ranked;
  for (const std::string& peer : peers) {
    const std::string& owned = owned_[peer];
    if (!BitAt(owned, expert) && CountBits(owned) < most) {
      ranked.emplace_back(Rank(expert, peer), &peer);
    }
  }
  std::sort(ranked.begin(), ranked.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  size_t owners = OwnersOf(expert);
  for (const auto& [rank, peer] : ranked) {
    if (owners >= owners_) return;
    SetBit(&owned_[*peer], expert);
    ++owners;
  }
}

// Gives an expert for which only peers without room are left to the one of them that ranks first.
// That peer hands one of its experts to the peer that owns fewest. There is one that the other does
// not own, because the other has room and owns fewer.
void ExpertOwners::Trade(uint32_t expert, const std::vector<std::string>& peers) {
  const std::string* taker = nullptr;
  const std::string* fewest = nullptr;
  for (const std::string& peer : peers) {
    const auto size = CountBits(owned_[peer]);
    const auto least = fewest == nullptr ? 0 : CountBits(owned_[*fewest]);
    if (fewest == nullptr || size < least || (size == least && peer < *fewest)) fewest = &peer;
    if (BitAt(owned_[peer], expert)) continue;
    if (taker == nullptr || Rank(expert, peer) > Rank(expert, *taker)) taker = &peer;
  }
  CHECK(taker != nullptr && taker != fewest);
  std::string& from = owned_[*taker];
  std::string& to = owned_[*fewest];
  uint32_t traded = experts_;
  for (uint32_t other = 0; other < experts_; ++other) {
    if (!BitAt(from, other) || BitAt(to, other)) continue;
    if (traded == experts_ || Rank(other, *fewest) > Rank(traded, *fewest)) traded = other;
  }
  CHECK(traded < experts_);
  ClearBit(&from, traded);
  SetBit(&to, traded);
  SetBit(&from, expert);
}

void ExpertOwners::Assign(uint64_t version, const std::vector<std::string>& peers) {
  if (peers.empty()) return;
  std::vector<std::string> fresh;
  Owned kept;
  for (const std::string& peer : peers) {
    const auto known = owned_.find(peer);
    if (known == owned_.end()) fresh.push_back(peer);
    kept[peer] = known == owned_.end() ? OwnsNothing(experts_) : known->second;
  }
  const size_t wanted = std::min<size_t>(owners_, peers.size());
  const size_t share = (experts_ * wanted + peers.size() - 1) / peers.size();
  if (version != version_) {
    told_.clear();
    back_.clear();
  }
  if (version == version_ && !owned_.empty()) {
    // The others train already, and keep what they own.
    for (const std::string& peer : fresh) owned_[peer] = kept[peer];
    for (uint32_t expert = 0; expert < experts_ && !fresh.empty(); ++expert) {
      Fill(expert, fresh, share);
    }
    return;
  }
  version_ = version;
  owned_ = std::move(kept);
  Trim(wanted, share);
  for (uint32_t expert = 0; expert < experts_; ++expert) Fill(expert, peers, share);
  // The shares of peers that own an expert already may be all the room that is left for it.
  for (uint32_t expert = 0; expert < experts_; ++expert) {
    while (OwnersOf(expert) < wanted) Trade(expert, peers);
  }
}

std::string ExpertOwners::OwnedBy(absl::string_view peer) const {
  const auto known = owned_.find(peer);
  return known == owned_.end() ? OwnsNothing(experts_) : known->second;
}

std::string ExpertOwners::Counted(absl::string_view peer, const std::string& trained) const {
  const std::string now = OwnedBy(peer);
  std::string counted = trained;
  for (uint32_t i = 0; i < experts_; ++i) {
    if (!BitAt(now, i)) ClearBit(&counted, i);
  }
  return counted;
}

}  // namespace atolld
