#include "daemon/peer/party_draw.h"

#include <algorithm>
#include <utility>

#include "membership/history/digest.h"

namespace atolld {
namespace {

uint64_t PartyKey(const PartyDraw& draw, uint32_t party) {
  const Digest digest =
      DigestBuilder(draw.domain).U64(draw.seed).U64(draw.version).U64(party).Finish();
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i) key |= static_cast<uint64_t>(digest[i]) << (8 * i);
  return key;
}

}  // namespace

uint32_t MostDrawn(uint32_t parties, double share) {
  // Shares are fp32: 0.02 of 500 are 10, and not 9 because 0.02 is a little less than that.
  constexpr double kRounding = 1e-6;
  return share >= 1 ? parties : static_cast<uint32_t>(share * parties * (1 + kRounding));
}

std::vector<uint32_t> DrawParties(const PartyDraw& draw,
                                  const std::function<bool(uint32_t party)>& is_there) {
  const uint64_t end = uint64_t{draw.first} + draw.hosted;
  std::vector<uint32_t> parties;
  for (uint64_t number = draw.first; number < end; ++number) {
    const auto party = static_cast<uint32_t>(number);
    if (!is_there || is_there(party)) parties.push_back(party);
  }
  size_t count = draw.count == 0 ? parties.size() : draw.count;
  const auto here = static_cast<uint32_t>(parties.size());
  count = std::min<size_t>(count, MostDrawn(here, draw.share));
  if (count >= parties.size()) return parties;
  std::vector<std::pair<uint64_t, uint32_t>> keys;
  keys.reserve(parties.size());
  for (const uint32_t party : parties) keys.emplace_back(PartyKey(draw, party), party);
  std::nth_element(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(count), keys.end());
  keys.resize(count);
  parties.clear();
  for (const auto& [key, party] : keys) parties.push_back(party);
  std::sort(parties.begin(), parties.end());
  return parties;
}

}  // namespace atolld
