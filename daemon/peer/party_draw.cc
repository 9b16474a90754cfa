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

std::vector<uint32_t> DrawParties(const PartyDraw& draw,
                                  const std::function<bool(uint32_t party)>& is_there) {
  const uint64_t end = uint64_t{draw.first} + draw.hosted;
  const bool all = draw.count == 0 || draw.count >= draw.hosted;
  std::vector<uint32_t> parties;
  std::vector<std::pair<uint64_t, uint32_t>> lowest;  // a heap, the highest of them in front
  for (uint64_t number = draw.first; number < end; ++number) {
    const auto party = static_cast<uint32_t>(number);
    if (is_there && !is_there(party)) continue;
    if (all) {
      parties.push_back(party);
      continue;
    }
    const std::pair<uint64_t, uint32_t> drawn(PartyKey(draw, party), party);
    if (lowest.size() == draw.count) {
      if (drawn > lowest.front()) continue;
      std::pop_heap(lowest.begin(), lowest.end());
      lowest.pop_back();
    }
    lowest.push_back(drawn);
    std::push_heap(lowest.begin(), lowest.end());
  }
  for (const auto& [key, party] : lowest) parties.push_back(party);
  std::sort(parties.begin(), parties.end());
  return parties;
}

}  // namespace atolld
