#include "membership/planning/link_estimates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "membership/planning/arrival_log.h"

namespace atolld {
namespace {

// The number of exchanges that an estimate uses.
constexpr size_t kExchanges = 8;

// A line with less than this share of its rate in use had room for more.
constexpr double kRoom = 0.7;

// Windows this close to a link's best one show the same limit.
constexpr double kNearlyBest = 0.9;

// The payload's part of a line's rate: 1448 bytes of every 1500 of an IP packet with TCP. Peers
// give limits for lines.
constexpr double kPayloadShare = 1448.0 / 1500.0;

// A line's rate is what it kept up for half of its bytes, if that is at least this share of its
// best moment. If packets get lost, the bytes after them arrive at once when they are there, faster
// than any line.
constexpr double kSustained = 0.6;

// The opening counts if it shows this many times the rate of the whole exchange: the exchange then
// waited for another line.
constexpr double kIdle = 1.5;

// A rate above that of any line; it means that no limit is known.
constexpr double kNoLimit = 1e15;

// Regions with names need a link for each two; with more regions than this no model is made.
constexpr size_t kMostRegions = 64;

// The most bytes of a slot, so that sums of other peers' figures do not overflow.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

struct Window {
  size_t begin = 0;
  size_t end = 0;  // the slot behind the last one
  double rate = 0;
};

double Sum(const std::vector<double>& slots, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += slots[i];
  return sum;
}

// Returns, from each slot on, the shortest window of at least two slots and `least` bytes.
std::vector<Window> Windows(const std::vector<double>& slots, double slot_seconds, double least) {
  std::vector<Window> windows;
  for (size_t begin = 0; begin + 2 <= slots.size(); ++begin) {
    double bytes = slots[begin];
    for (size_t end = begin + 2; end <= slots.size(); ++end) {
      bytes += slots[end - 1];
      if (bytes < least) continue;
      windows.push_back({begin, end, bytes / (static_cast<double>(end - begin) * slot_seconds)});
      break;
    }
  }
  return windows;
}

double BestRate(const std::vector<Window>& windows) {
  double best = 0;
  for (const Window& window : windows) best = std::max(best, window.rate);
  return best;
}

std::vector<Window> LongWindows(const std::vector<double>& slots, double slot_seconds,
                                double least) {
  return Windows(slots, slot_seconds, std::max(least, Sum(slots, 0, slots.size()) / 2));
}

double RateOf(const std::vector<double>& slots, double slot_seconds, double least) {
  const double shortly = BestRate(Windows(slots, slot_seconds, least));
  const double sustained = BestRate(LongWindows(slots, slot_seconds, least));
  return sustained >= kSustained * shortly ? sustained : shortly;
}

double OpeningRateOf(const std::vector<double>& slots, double slot_seconds, double least) {
  return BestRate(LongWindows(slots, slot_seconds, least));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A line has room if less than this part of its equal share of the waits was for it. This is
// decided only if this share of all chunks waited for some peer.
constexpr double kHardly = 0.25;
constexpr double kMostChunks = 0.5;

// The peers for which chunks waited: the shares of what each witness averaged, added up. A witness
// that reports nonsense therefore counts no more than the others.
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

// The witnesses' reports, converted to the same slots.
struct LinkEstimates::Exchange {
  struct Line {
    std::string region;
    std::vector<double> up, down;  // bytes by slot
  };
  struct Stream {
    const std::string* from;
    const std::string* to;
    std::vector<double> bytes;
    std::optional<double> opened;  // in seconds
  };
  double slot_seconds = 0;
  double updates = 0;  // the bytes of contributors' own chunks
  std::map<std::string, Line> lines;
  std::vector<Stream> streams;

  // The whole exchange, or its first half second.
  enum class Part { kWhole, kOpening };
  static std::optional<Exchange> Of(absl::Span<const ExchangeWitness> witnesses, Part part);
};

std::optional<LinkEstimates::Exchange> LinkEstimates::Exchange::Of(
    absl::Span<const ExchangeWitness> witnesses, Part part) {
  const auto opening_slot =
      static_cast<uint64_t>(absl::ToInt64Microseconds(ArrivalLog::kShortestSlot));
  const auto slot_of = [part, opening_slot](const ExchangeWitness& witness) {
    return part == Part::kOpening ? opening_slot : witness.arrivals->slot_microseconds();
  };
  Exchange exchange;
  uint64_t slot = 0;
  for (const ExchangeWitness& witness : witnesses) {
    slot = std::max(slot, slot_of(witness));
    exchange.lines[witness.peer].region = witness.region;
  }
  for (auto& [peer, line] : exchange.lines) {
    line.up.assign(ArrivalLog::kSlots, 0);
    line.down.assign(ArrivalLog::kSlots, 0);
  }
  exchange.slot_seconds = static_cast<double>(slot) * 1e-6;
  for (const ExchangeWitness& witness : witnesses) {
    const uint64_t own = slot_of(witness);
    if (own == 0 || slot % own != 0) return std::nullopt;
    const size_t together = static_cast<size_t>(slot / own);
    const auto to = exchange.lines.find(witness.peer);
    std::set<std::string> named;
    double received = 0;
    for (const v1::ArrivalsFrom& told : witness.arrivals->from()) {
      const auto& slots = part == Part::kOpening ? told.opening() : told.bytes();
      if (static_cast<size_t>(slots.size()) > ArrivalLog::kSlots) return std::nullopt;
      if (!named.insert(told.peer()).second) return std::nullopt;
      const auto from = exchange.lines.find(told.peer());
      if (from == exchange.lines.end() || from == to) continue;  // for example a guest
      Stream stream{&from->first, &to->first, std::vector<double>(ArrivalLog::kSlots, 0), {}};
      for (int i = 0; i < slots.size(); ++i) {
        if (slots[i] > kMostBytes) return std::nullopt;
        const size_t at = static_cast<size_t>(i) / together;
        const auto bytes = static_cast<double>(slots[i]);
        stream.bytes[at] += bytes;
        from->second.up[at] += bytes;
        to->second.down[at] += bytes;
        received += bytes;
      }
      if (told.opened()) stream.opened = static_cast<double>(told.opened_microseconds()) * 1e-6;
      exchange.streams.push_back(std::move(stream));
    }
    const auto updates = static_cast<double>(witness.arrivals->update_bytes());
    if (part == Part::kWhole && updates > received) return std::nullopt;
    exchange.updates += updates;
  }
  return exchange;
}

void LinkEstimates::Recent::Add(double value) {
  values_.push_back(value);
  if (values_.size() > kExchanges) values_.pop_front();
}

double LinkEstimates::Recent::Greatest() const {
  return values_.empty() ? 0 : *std::max_element(values_.begin(), values_.end());
}

double LinkEstimates::Recent::Least() const {
  return values_.empty() ? 0 : *std::min_element(values_.begin(), values_.end());
}

bool LinkEstimates::Note(absl::Span<const ExchangeWitness> witnesses, double least_bytes,
                         double least_opening_bytes) {
  const std::optional<Exchange> exchange = Exchange::Of(witnesses, Exchange::Part::kWhole);
  const std::optional<Exchange> opening = Exchange::Of(witnesses, Exchange::Part::kOpening);
  if (!exchange || !opening) return false;
  const auto rate = [&](const std::vector<double>& whole, const std::vector<double>& first) {
    const double kept_up = RateOf(whole, exchange->slot_seconds, least_bytes);
    const double at_first = OpeningRateOf(first, opening->slot_seconds, least_opening_bytes);
    return at_first > kIdle * kept_up ? at_first : kept_up;
  };
  arrived_bytes_ = 0;
  arrived_updates_ = exchange->updates;
  for (const auto& [peer, line] : exchange->lines) {
    const Exchange::Line& at_first = opening->lines.at(peer);
    const double up = rate(line.up, at_first.up);
    const double down = rate(line.down, at_first.down);
    if (up > 0) peers_[peer].up.Add(up);
    if (down > 0) peers_[peer].down.Add(down);
    arrived_bytes_ += Sum(line.down, 0, line.down.size());
  }
  with_room_ = PeersWithRoom(witnesses);
  NoteLinks(*exchange, least_bytes);
  NoteCarried(*exchange, least_bytes);
  NoteRoundTrips(*exchange);
  return true;
}

void LinkEstimates::NoteLinks(const Exchange& exchange, double least_bytes) {
  std::map<Pair, std::vector<const Exchange::Stream*>> by_link;
  for (const Exchange::Stream& stream : exchange.streams) {
    const std::string& from = exchange.lines.at(*stream.from).region;
    const std::string& to = exchange.lines.at(*stream.to).region;
    if (!from.empty() && !to.empty() && from != to) by_link[{from, to}].push_back(&stream);
  }
  for (const auto& [regions, streams] : by_link) {
    std::vector<double> together(ArrivalLog::kSlots, 0);
    for (const Exchange::Stream* stream : streams) {
      for (size_t i = 0; i < together.size(); ++i) together[i] += stream->bytes[i];
    }
    const std::vector<Window> windows = LongWindows(together, exchange.slot_seconds, least_bytes);
    const double best = BestRate(windows);
    if (best <= 0) continue;
    const auto has_room = [&](const std::vector<double>& slots, const Window& window, double rate) {
      const double seconds = static_cast<double>(window.end - window.begin) * exchange.slot_seconds;
      return Sum(slots, window.begin, window.end) / seconds <= kRoom * rate;
    };
    // Most of the bytes came from lines with room and went to lines with room, so the link between
    // them was the limit.
    const bool limited = std::any_of(windows.begin(), windows.end(), [&](const Window& window) {
      if (window.rate < kNearlyBest * best) return false;
      double with_room = 0;
      for (const Exchange::Stream* stream : streams) {
        if (has_room(exchange.lines.at(*stream->from).up, window, Up(*stream->from)) &&
            has_room(exchange.lines.at(*stream->to).down, window, Down(*stream->to))) {
          with_room += Sum(stream->bytes, window.begin, window.end);
        }
      }
      return 2 * with_room >= Sum(together, window.begin, window.end);
    });
    Recent& link = links_[regions];
    if (limited) {
      link.Add(best);
    } else if (best > link.Greatest()) {
      link.Clear();  // it carries more than the supposed limit
    }
  }
}

void LinkEstimates::NoteCarried(const Exchange& exchange, double least_bytes) {
  carried_.clear();
  std::map<Pair, std::vector<double>> together;
  for (const Exchange::Stream& stream : exchange.streams) {
    const std::string& from = exchange.lines.at(*stream.from).region;
    const std::string& to = exchange.lines.at(*stream.to).region;
    if (from.empty() || to.empty()) continue;
    std::vector<double>& slots = together[{from, to}];
    slots.resize(ArrivalLog::kSlots, 0);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] += stream.bytes[i];
  }
  for (const auto& [regions, slots] : together) {
    const double rate = RateOf(slots, exchange.slot_seconds, least_bytes);
    if (rate > 0) carried_[regions] = rate;
  }
}

// A plan leaves the coordinator for all peers at once. Suppose that it takes c_i to reach peer i,
// and that what i sends at once takes d_ij to j. Then j sees it c_i + d_ij - c_j after its own
// plan. In the sum of both directions only the round trip is left.
void LinkEstimates::NoteRoundTrips(const Exchange& exchange) {
  std::map<std::pair<std::string, std::string>, double> opened;
  for (const Exchange::Stream& stream : exchange.streams) {
    if (stream.opened) opened[{*stream.from, *stream.to}] = *stream.opened;
  }
  std::map<Pair, std::vector<double>> seen;
  for (const auto& [ends, forth] : opened) {
    const auto& [from, to] = ends;
    const auto back = opened.find({to, from});
    double seconds = 0;
    if (back != opened.end()) {
      seconds = forth + back->second;
    } else {  // it only dials out: estimated from the known c
      const auto sender = peers_.find(from);
      const auto receiver = peers_.find(to);
      if (sender == peers_.end() || sender->second.coordinator_seconds.empty() ||
          receiver == peers_.end() || receiver->second.coordinator_seconds.empty()) {
        continue;
      }
      seconds = 2 * forth - sender->second.coordinator_seconds.Least() +
                receiver->second.coordinator_seconds.Least();
    }
    const std::string& a = exchange.lines.at(from).region;
    const std::string& b = exchange.lines.at(to).region;
    seen[std::minmax(a, b)].push_back(std::max(0.0, seconds));
  }
  for (auto& [regions, all] : seen) round_seconds_[regions].Add(Median(std::move(all)));
}

void LinkEstimates::NoteCoordinator(const std::string& peer, absl::Duration rtt) {
  peers_[peer].coordinator_seconds.Add(std::max(0.0, absl::ToDoubleSeconds(rtt)));
}

double LinkEstimates::Up(const std::string& peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.up.Greatest();
}

double LinkEstimates::Down(const std::string& peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.down.Greatest();
}

double LinkEstimates::Carried(const std::string& from, const std::string& to) const {
  const auto found = carried_.find({from, to});
  return found == carried_.end() ? 0 : found->second;
}

std::optional<double> LinkEstimates::RoundTrip(const std::string& a, const std::string& b) const {
  const auto found = round_seconds_.find(std::minmax(a, b));
  if (found == round_seconds_.end()) return std::nullopt;
  return found->second.Least();
}

std::optional<LinkModel> LinkEstimates::Model(absl::Span<const KnownPeer> peers) const {
  const auto bounded = [](double measured, double limit) {
    if (limit <= 0) return measured;
    const double most = limit * kPayloadShare;
    return measured > 0 ? std::min(measured, most) : most;
  };
  std::vector<double> ups;
  std::vector<double> downs;
  std::map<std::string, size_t> regions;
  LinkModel model;
  absl::Duration to_coordinator;
  for (const KnownPeer& peer : peers) {
    const double up = bounded(Up(peer.peer), peer.up_rate);
    const double down = bounded(Down(peer.peer), peer.down_rate);
    if (up > 0) ups.push_back(up);
    if (down > 0) downs.push_back(down);
    if (regions.count(peer.region) == 0) {
      regions[peer.region] = model.AddRegion(peer.region, !peer.region.empty());
    }
    const auto known = peers_.find(peer.peer);
    if (known == peers_.end()) continue;
    to_coordinator =
        std::max(to_coordinator, absl::Seconds(known->second.coordinator_seconds.Least()));
  }
  if ((ups.empty() && downs.empty()) || regions.size() > kMostRegions) return std::nullopt;
  const double middle_up = ups.empty() ? kNoLimit : Median(ups);
  const double middle_down = downs.empty() ? kNoLimit : Median(downs);
  const auto within = [&](const std::string& region) {
    return absl::Seconds(RoundTrip(region, region).value_or(0));
  };
  for (const KnownPeer& peer : peers) {
    const double up = bounded(Up(peer.peer), peer.up_rate);
    const double down = bounded(Down(peer.peer), peer.down_rate);
    model.AddPeer({peer.peer, regions[peer.region], up > 0 ? up : middle_up,
                   down > 0 ? down : middle_down, within(peer.region) / 4, peer.reduces, true,
                   HadRoom(peer.peer), peer.slow});
  }
  for (auto a = regions.begin(); a != regions.end(); ++a) {
    for (auto b = std::next(a); b != regions.end(); ++b) {
      const auto rate = [&](const std::string& from, const std::string& to) {
        const auto found = links_.find({from, to});
        return found == links_.end() || found->second.empty() ? kNoLimit : found->second.Greatest();
      };
      const absl::Duration rtt = absl::Seconds(RoundTrip(a->first, b->first).value_or(0)) -
                                 within(a->first) / 2 - within(b->first) / 2;
      model.AddLink(a->second, b->second, rate(a->first, b->first), rate(b->first, a->first),
                    std::max(rtt, absl::ZeroDuration()));
    }
  }
  model.ConnectDirectly();
  model.SetCoordinatorRtt(to_coordinator);
  return model;
}

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
