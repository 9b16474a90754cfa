// The faults of SimNetwork's links.
#include <algorithm>

#include "tests/sim/sim_connection.h"
#include "tests/sim/sim_transport.h"

namespace atolld {

void SimNetwork::SetLink(const std::string& a, const std::string& b, SimLinkSettings settings) {
  links_.Of(a, b).settings = settings;
  links_.Of(b, a).settings = settings;
}

void SimNetwork::SetLinkOneWay(const std::string& from, const std::string& to,
                               SimLinkSettings settings) {
  links_.Of(from, to).settings = settings;
}

void SimNetwork::SetPeerRate(const std::string& process, double bytes_per_second) {
  links_.Host(process).bytes_per_second = bytes_per_second;
}

void SimNetwork::CutLink(const std::string& a, const std::string& b) {
  links_.Of(a, b).cut = true;
  links_.Of(b, a).cut = true;
  BreakCalls(a, b);
}

void SimNetwork::HealLink(const std::string& a, const std::string& b) {
  links_.Of(a, b).cut = false;
  links_.Of(b, a).cut = false;
}

void SimNetwork::Partition(const std::set<std::string>& side) {
  links_.Separate(side);
  for (const auto& connection : Connections()) {
    const SimLink& link = connection->link(SimConnection::kClient);
    if (side.count(link.from) != side.count(link.to)) connection->Break("the link broke");
  }
}

void SimNetwork::BreakCalls(const std::string& a, const std::string& b) {
  for (const auto& connection : Connections()) {
    if (connection->Between(a, b)) connection->Break("the link broke");
  }
}

void SimNetwork::BreakCallsAfter(const std::string& a, const std::string& b, uint64_t bytes) {
  SimLink& link = links_.Of(a, b);
  link.break_at = link.back->break_at = link.sent + link.back->sent + bytes;
}

void SimNetwork::CutOneWay(const std::string& from, const std::string& to) {
  SimLink& link = links_.Of(from, to);
  link.cut_silently = true;
  Changed(link);
}

void SimNetwork::HealOneWay(const std::string& from, const std::string& to) {
  SimLink& link = links_.Of(from, to);
  link.cut_silently = false;
  Changed(link);
}

void SimNetwork::BlackHole(const std::string& a, const std::string& b) {
  SimLink& link = links_.Of(a, b);
  link.black_hole = link.back->black_hole = true;
  Changed(link);
}

void SimNetwork::HealBlackHole(const std::string& a, const std::string& b) {
  SimLink& link = links_.Of(a, b);
  link.black_hole = link.back->black_hole = false;
  Changed(link);
}

void SimNetwork::Clog(const std::string& a, const std::string& b, absl::Duration duration) {
  SimLink& link = links_.Of(a, b);
  const absl::Duration until = std::max(link.clogged_until, events_.now() + duration);
  link.clogged_until = link.back->clogged_until = until;
  Changed(link);
  events_.Schedule(duration, SimEventQueue::kWorld, [this, &link] { Changed(link); });
}

void SimNetwork::SetLoss(const std::string& a, const std::string& b, double probability) {
  links_.Of(a, b).loss = links_.Of(b, a).loss = probability;
}

void SimNetwork::HealAll() {
  links_.Reconnect();
  replay_probability_ = 0;
  for (SimLink* link : links_.All()) links_.Heal(*link);
  for (SimLink* link : links_.All()) Changed(*link);
}

void SimNetwork::HealAmong(const std::set<std::string>& core) {
  for (const std::string& a : core) {
    for (const std::string& b : core) {
      SimLink& link = links_.Of(a, b);
      links_.Heal(link);
      links_.Heal(*link.back);
      Changed(link);
    }
  }
}

void SimNetwork::SetPaused(const std::string& process, bool paused) {
  links_.Host(process).paused = paused;
  for (SimLink* link : links_.All()) {
    if (link->from == process || link->to == process) WatchSilence(*link);
  }
}

void SimNetwork::Changed(SimLink& link) {
  for (SimLink* each : {&link, link.back}) {
    WatchSilence(*each);
    if (each->Held(events_.now())) continue;
    const auto waiting = std::move(each->waiting);
    each->waiting.clear();
    for (const auto& [call, side] : waiting) {
      const std::shared_ptr<SimConnection> connection = call.lock();
      if (connection != nullptr) connection->Travel(static_cast<SimConnection::Side>(side));
    }
  }
}

// Silence is a matter of both directions: one of the two watches for both.
void SimNetwork::WatchSilence(SimLink& link) {
  if (!links_.UpdateSilence(link) || link.from >= link.to) return;
  events_.Schedule(settings_.keepalive, SimEventQueue::kWorld,
                   [this, &link] { BreakSilent(link); });
}

void SimNetwork::BreakSilent(SimLink& link) {
  if (link.silent_since == absl::InfiniteDuration()) return;
  for (const auto& connection : Connections()) {
    if (!connection->Between(link.from, link.to)) continue;
    const absl::Duration since = std::max(link.silent_since, connection->dialled());
    if (events_.now() - since >= settings_.keepalive)
      connection->Lose("the keepalive had no answer");
  }
}

}  // namespace atolld
