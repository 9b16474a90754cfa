#include "membership/planning/peers_with_room.h"

#include <algorithm>
#include <map>

namespace atolld {
namespace {

// A line has room if less than this part of what would be its share of the waits was for it; and
// only where so much of all chunks waited for somebody.
constexpr double kHardly = 0.25;
constexpr double kMostChunks = 0.5;

// For whom chunks waited: shares of what each witness averaged, added up, so that one who tells
// nonsense counts no more than the others.
struct Waits {
  std::map<std::string, double> for_peer;
  double all = 0;
  double witnesses = 0;

  static Waits Of(absl::Span<const ExchangeWitness> witnesses,
                  const std::set<std::string>& without);
};

Waits Waits::Of(absl::Span<const ExchangeWitness> witnesses, const std::set<std::string>& without) {
  Waits waits;
  for (const ExchangeWitness& witness : witnesses) {
    const auto averaged = static_cast<double>(witness.arrivals->averaged_chunks());
    if (averaged == 0 || without.count(witness.peer) != 0) continue;
    ++waits.witnesses;
    for (const v1::ArrivalsFrom& told : witness.arrivals->from()) {
      const double share = std::min(1.0, static_cast<double>(told.waited_chunks()) / averaged);
      waits.for_peer[told.peer()] += share;
      waits.all += share;
    }
  }
  return waits;
}

}  // namespace

std::set<std::string> PeersWithRoom(absl::Span<const ExchangeWitness> witnesses) {
  const double fair = 1.0 / static_cast<double>(witnesses.size());
  const Waits of_all = Waits::Of(witnesses, {});
  std::set<std::string> slow;
  for (const auto& [peer, shares] : of_all.for_peer) {
    if (shares > fair * of_all.all) slow.insert(peer);
  }
  const Waits waits = Waits::Of(witnesses, slow);
  std::set<std::string> with_room;
  if (waits.witnesses == 0 || waits.all < kMostChunks * waits.witnesses) return with_room;
  for (const ExchangeWitness& witness : witnesses) {
    const auto found = waits.for_peer.find(witness.peer);
    const double shares = found == waits.for_peer.end() ? 0 : found->second;
    if (shares < kHardly * fair * waits.all) with_room.insert(witness.peer);
  }
  return with_room;
}

}  // namespace atolld
