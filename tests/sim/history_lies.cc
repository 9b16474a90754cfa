// History, the lies of reducers: what the entry is that one of them has changed.
#include <cstring>
#include <numeric>

#include "membership/history/digest.h"
#include "tests/sim/history.h"

namespace atolld {
namespace {

// As many shards as a liar may have had, one after another, in an exchange.
constexpr size_t kMostShards = 6;

// Where each chunk of a payload ends.
std::vector<size_t> EndsOf(const std::string& payload) {
  uint32_t count;
  std::memcpy(&count, payload.data(), sizeof(count));
  std::vector<uint32_t> sizes(count);
  std::memcpy(sizes.data(), payload.data() + sizeof(count), count * sizeof(count));
  std::vector<size_t> ends;
  size_t end = (1 + size_t{count}) * sizeof(count);
  for (const uint32_t size : sizes) ends.push_back(end += size);
  return ends;
}

}  // namespace

// Whether the header's payload is this one with the first chunk of some of the liars' shards
// changed as HostileTransport does; it then becomes that.
bool History::Lied(const v1::EntryHeader& header, std::string* payload) {
  const std::vector<size_t> ends = EndsOf(*payload);
  std::vector<size_t> places;
  for (const v1::Shard& shard : plans_[header.version()].shards()) {
    const bool lies = shard.chunks() > 0 && liars_.count(shard.reducer()) > 0;
    if (lies && places.size() < kMostShards) places.push_back(ends.at(shard.first_chunk()) - 1);
  }
  for (size_t subset = 1; subset < size_t{1} << places.size(); ++subset) {
    std::string changed = *payload;
    for (size_t i = 0; i < places.size(); ++i) {
      char& code = changed[places[i]];
      if (subset >> i & 1) code = code == 0 ? 1 : 0;
    }
    const Digest digest =
        TreeDigest({reinterpret_cast<const uint8_t*>(changed.data()), changed.size()});
    if (ToBytes(digest) != header.payload_digest()) continue;
    *payload = std::move(changed);
    ++lies_;
    return true;
  }
  return false;
}

}  // namespace atolld
