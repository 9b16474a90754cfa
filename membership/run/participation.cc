#include "membership/run/participation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/string_view.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

uint64_t KeyedDraw(absl::string_view domain, uint64_t seed, uint64_t version,
                   const std::string& peer) {
  const Digest digest = DigestBuilder(domain).U64(seed).U64(version).Bytes(peer).Finish();
  uint64_t draw = 0;
  for (size_t i = 0; i < 8; ++i) draw |= uint64_t{digest[i]} << (8 * i);
  return draw;
}

}  // namespace

Participation::Participation(const v1::RunSpec& spec) : seed_(spec.seed()) {
  const v1::FederationSpec& federation = spec.federation();
  if (federation.participation_bits() != 0) {
    share_ = absl::bit_cast<float>(federation.participation_bits());
  }
  drop_ = absl::bit_cast<float>(federation.drop_bits());
}

size_t Participation::Number(size_t trainers) const {
  if (trainers == 0 || !draws()) return trainers;
  // Shares are fp32: 0.3 of 10 is 3, not 4, although the float 0.3 is slightly more than 0.3.
  constexpr double kRounding = 1e-6;
  const double exact = share_ * static_cast<double>(trainers);
  return std::max<size_t>(1, static_cast<size_t>(std::ceil(exact * (1 - kRounding))));
}

uint32_t Participation::Fewest(uint32_t quorum) const {
  return drops() ? 1 : static_cast<uint32_t>(Number(quorum));
}

std::vector<std::string> Participation::Order(uint64_t version,
                                              std::vector<std::string> peers) const {
  std::vector<std::pair<uint64_t, std::string>> ranked;
  ranked.reserve(peers.size());
  for (std::string& peer : peers) {
    const uint64_t rank = KeyedDraw("atoll.participation", seed_, version, peer);
    ranked.emplace_back(rank, std::move(peer));
  }
  std::sort(ranked.begin(), ranked.end());
  for (size_t i = 0; i < ranked.size(); ++i) peers[i] = std::move(ranked[i].second);
  return peers;
}

bool Participation::Dropped(uint64_t version, const std::string& peer) const {
  if (!drops()) return false;
  const uint64_t draw = KeyedDraw("atoll.drop", seed_, version, peer);
  return static_cast<double>(draw) < drop_ * 0x1p64;
}

uint32_t Participation::RoundsAtOnce(uint64_t version, uint64_t last,
                                     const std::string& peer) const {
  uint32_t rounds = 1;
  while (rounds < kMostRoundsAtOnce && version < last && Dropped(version, peer)) {
    ++version;
    ++rounds;
  }
  return rounds;
}

}  // namespace atolld
