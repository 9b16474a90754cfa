#include "tests/sim/sim_transport.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "compression/base/check.h"
#include "daemon/env/network.h"
#include "membership/trust/identity.h"

namespace atolld {

SimNetwork::SimNetwork(SimEventQueue& events, uint64_t seed, SimNetworkSettings settings)
    : events_(events),
      settings_(settings),
      links_(events, seed, settings.link),
      replay_random_(seed ^ 0x7265706c6179) {}

void SimNetwork::SetIdentity(const std::string& process, Identity identity) {
  identities_[process] = std::move(identity);
}

uint64_t SimNetwork::bytes_sent(const std::string& from, const std::string& to) {
  return links_.Of(from, to).sent;
}

size_t SimNetwork::open_calls() const {
  return static_cast<size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [](const auto& connection) { return !connection.second->over(); }));
}

void SimNetwork::OnSent(SimLink& link, uint64_t bytes) {
  link.sent += bytes;
  const uint64_t both = &link == link.back ? link.sent : link.sent + link.back->sent;
  if (both < link.break_at) return;
  link.break_at = link.back->break_at = std::numeric_limits<uint64_t>::max();
  BreakCalls(link.from, link.to);
}

uint64_t SimNetwork::Add(SimConnection* connection) {
  connections_[++serials_] = connection;
  return serials_;
}

std::vector<std::shared_ptr<SimConnection>> SimNetwork::Connections() const {
  std::vector<std::shared_ptr<SimConnection>> live;
  live.reserve(connections_.size());
  for (const auto& [serial, connection] : connections_) {
    // One that is being destroyed still stands here, and nobody holds it any more.
    if (auto held = connection->weak_from_this().lock()) live.push_back(std::move(held));
  }
  return live;
}

void SimNetwork::Silence(SimEventQueue::Owner owner) {
  silenced_.insert(owner);
  for (auto it = listeners_.begin(); it != listeners_.end();) {
    if (it->second->owner != owner) {
      ++it;
      continue;
    }
    // Its acceptor may be what is running: it dies later.
    doomed_.push_back(std::move(it->second));
    it = listeners_.erase(it);
  }
  for (const auto& connection : Connections()) connection->DropOwner(owner);
}

void SimNetwork::DropProcess(SimEventQueue::Owner owner) {
  Silence(owner);
  doomed_.erase(std::remove_if(doomed_.begin(), doomed_.end(),
                               [owner](const auto& state) { return state->owner == owner; }),
                doomed_.end());
}

void SimNetwork::Accept(const std::shared_ptr<SimConnection>& connection,
                        const std::weak_ptr<ListenerState>& listener) {
  const auto state = listener.lock();
  if (connection->broken()) return;
  if (state == nullptr) return connection->Refuse("connection refused");
  const std::optional<Identity> caller = connection->identity(SimConnection::kServer);
  const absl::Status allowed =
      caller ? CheckAccess(*caller, connection->method()) : absl::OkStatus();
  if (!allowed.ok()) {
    const std::shared_ptr<Call> refused = connection->MakeCall(SimConnection::kServer);
    refused->Start({});
    refused->Finish(allowed);
    // Kept until the word of it has arrived.
    events_.Schedule(absl::Minutes(1), SimEventQueue::kWorld, [refused] {});
    return;
  }
  // A copy: the acceptor may destroy its listener.
  const Transport::Acceptor acceptor = state->acceptor;
  acceptor(connection->method(), connection->MakeCall(SimConnection::kServer));
  // Whoever receives a call starts it before the loop goes on, or lets it go.
  CHECK(connection->started(SimConnection::kServer) ||
        !connection->attached(SimConnection::kServer));
}

// Makes the two ends of a call, the server's at the process that listens or last listened at the
// address, and sends the client's first packet.
std::shared_ptr<SimConnection> SimNetwork::Connect(const std::string& process,
                                                   SimEventQueue::Owner owner,
                                                   const std::string& target,
                                                   const std::string& method) {
  const auto [peer, address] = ParsePeerAddress(target);
  const auto found = listeners_.find(address);
  const bool known = found != listeners_.end();
  const auto home = homes_.find(address);
  SimConnection::Party client{process, owner, process, std::nullopt};
  const auto identity = identities_.find(process);
  if (identity != identities_.end()) client.identity = identity->second;
  SimConnection::Party server{home == homes_.end() ? "" : home->second,
                              known ? found->second->owner : SimEventQueue::kWorld, address,
                              std::nullopt};
  auto connection = std::make_shared<SimConnection>(static_cast<SimConnection::Network&>(*this),
                                                    method, std::move(client), std::move(server),
                                                    known ? found->second.get() : nullptr);
  SimLink& link = connection->link(SimConnection::kClient);
  if (home == homes_.end() || link.cut || silenced_.count(owner) != 0) {
    connection->Break(absl::StrCat(address, ": cannot be reached"));
    return connection;
  }
  const auto shown = identities_.find(home->second);
  if (!peer.empty() && shown != identities_.end() && shown->second.id != peer) {
    connection->Break(absl::StrCat(address, ": peer ", peer, " should be there, and it is ",
                                   Describe(shown->second)));
    return connection;
  }
  if (!peer.empty() && shown != identities_.end() &&
      refused_[process].count(shown->second.key) != 0) {
    connection->Break(absl::StrCat(address, ": the process that answers for peer ", peer,
                                   " has a key that was revoked"));
    return connection;
  }
  if (link.silent_since != absl::InfiniteDuration()) {
    events_.Schedule(settings_.keepalive, SimEventQueue::kWorld,
                     [this, &link] { BreakSilent(link); });
  }
  std::weak_ptr<ListenerState> listener;
  if (known) listener = found->second;
  connection->Arrive(SimConnection::kClient, [this, raw = connection.get(), listener] {
    Accept(raw->shared_from_this(), listener);
  });
  return connection;
}

void SimNetwork::ReplayCalls(double probability, Methods methods, size_t frames) {
  replay_probability_ = probability;
  replay_methods_ = std::move(methods);
  replay_frames_ = frames;
}

void SimNetwork::Record(SimConnection& connection) {
  if (replay_probability_ <= 0 || !replay_methods_(connection.method())) return;
  if (replay_random_.Chance(replay_probability_)) connection.Record(replay_frames_);
}

void SimNetwork::OnRecorded(SimRecordedCall call) {
  events_.Schedule(replay_random_.Between(absl::Milliseconds(1), absl::Milliseconds(200)),
                   SimEventQueue::kWorld, [this, call = std::move(call)] { Replay(call); });
}

void SimNetwork::Replay(const SimRecordedCall& call) {
  if (replay_probability_ <= 0) return;  // healed meanwhile
  ++replays_;
  MakeAgain(call);
}

void SimNetwork::MakeAgain(const SimRecordedCall& call) {
  const auto connection = Connect(call.process, SimEventQueue::kWorld, call.address, call.method);
  const std::shared_ptr<void> client =
      SendAgain(connection->MakeCall(SimConnection::kClient), call);
  events_.Schedule(replay_random_.Between(absl::Milliseconds(100), absl::Seconds(2)),
                   SimEventQueue::kWorld,
                   [connection, client] { connection->Break("the repeated call broke"); });
}

class SimListener final : public Listener {
 public:
  SimListener(SimNetwork& network, std::string address,
              std::weak_ptr<SimNetwork::ListenerState> state)
      : network_(network), address_(std::move(address)), state_(std::move(state)) {}

  ~SimListener() override {
    const auto state = state_.lock();
    if (state == nullptr) return;
    const auto found = network_.listeners_.find(address_);
    if (found != network_.listeners_.end() && found->second == state) {
      network_.listeners_.erase(found);
    }
    for (const auto& connection : network_.Connections()) {
      if (connection->AcceptedThrough(state.get())) connection->Break("the listener was closed");
    }
  }

  std::string address() const override { return address_; }

 private:
  SimNetwork& network_;
  const std::string address_;
  const std::weak_ptr<SimNetwork::ListenerState> state_;
};

SimTransport::SimTransport(SimNetwork& network, std::string process, SimEventQueue::Owner owner)
    : network_(network), process_(std::move(process)), owner_(owner) {}

absl::StatusOr<std::unique_ptr<Listener>> SimTransport::Listen(const std::string& address,
                                                               Acceptor acceptor) {
  std::string bound = address;
  if (absl::EndsWith(bound, ":0")) {
    bound = absl::StrCat(bound.substr(0, bound.size() - 1), network_.next_port_++);
  }
  if (network_.silenced_.count(owner_) != 0) {
    return absl::UnavailableError(absl::StrCat(bound, ": process is dead"));
  }
  auto state = std::make_shared<SimNetwork::ListenerState>();
  state->process = process_;
  state->owner = owner_;
  state->acceptor = std::move(acceptor);
  if (!network_.listeners_.emplace(bound, state).second) {
    return absl::FailedPreconditionError(absl::StrCat(bound, ": address already in use"));
  }
  network_.homes_[bound] = process_;
  return std::make_unique<SimListener>(network_, bound, state);
}

std::unique_ptr<Call> SimTransport::Dial(const std::string& address, const std::string& method,
                                         absl::Duration deadline) {
  const auto connection = network_.Connect(process_, owner_, address, method);
  std::unique_ptr<Call> call = connection->MakeCall(SimConnection::kClient);
  connection->SetDeadline(deadline);
  network_.Record(*connection);
  return call;
}

void SimNetwork::SetLink(const std::string& a, const std::string& b, SimLinkSettings settings) {
  links_.Set(links_.Of(a, b), settings);
  links_.Set(links_.Of(b, a), settings);
}

void SimNetwork::SetLinkOneWay(const std::string& from, const std::string& to,
                               SimLinkSettings settings) {
  links_.Set(links_.Of(from, to), settings);
}

void SimNetwork::SetPeerRate(const std::string& process, double bytes_per_second) {
  links_.SetRate(links_.Host(process), bytes_per_second);
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

void SimNetwork::Hide(const std::string& process) { SetHidden(process, true); }
void SimNetwork::Show(const std::string& process) { SetHidden(process, false); }

void SimNetwork::SetHidden(const std::string& process, bool hidden) {
  links_.Host(process).hidden = hidden;
  for (SimLink* link : links_.All()) {
    if (link->to == process) Changed(*link);
  }
}

void SimNetwork::PassSmallAlone(const std::string& a, const std::string& b) {
  SetSmallAlone(a, b, true);
}
void SimNetwork::PassAll(const std::string& a, const std::string& b) { SetSmallAlone(a, b, false); }

void SimNetwork::SetSmallAlone(const std::string& a, const std::string& b, bool alone) {
  SimLink& link = links_.Of(a, b);
  link.small_only = link.back->small_only = alone;
  link.stuck_since = link.back->stuck_since = absl::InfiniteDuration();
  Changed(link);
}

absl::Duration SimNetwork::StuckSince(const std::string& a, const std::string& b) {
  const SimLink& link = links_.Of(a, b);
  return std::min(link.stuck_since, link.back->stuck_since);
}

void SimNetwork::SetLoss(const std::string& a, const std::string& b, double probability) {
  links_.Of(a, b).loss = links_.Of(b, a).loss = probability;
}

void SimNetwork::HealAll() {
  links_.Reconnect();
  replay_probability_ = 0;
  links_.ShowAll();
  for (SimLink* link : links_.All()) links_.Heal(*link);
  for (SimLink* link : links_.All()) Changed(*link);
}

void SimNetwork::HealAmong(const std::set<std::string>& core) {
  for (const std::string& a : core) {
    links_.Host(a).hidden = false;
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

// Silence concerns both directions: one of the two links watches for both.
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
