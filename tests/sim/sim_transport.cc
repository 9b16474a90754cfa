#include "tests/sim/sim_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "daemon/status_macros.h"
#include "tests/sim/sim_connection.h"

namespace atolld {

SimNetwork::SimNetwork(SimEventQueue& events, uint64_t seed, SimNetworkSettings settings)
    : events_(events), settings_(settings), random_(seed) {}

SimNetwork::Link& SimNetwork::LinkOf(const std::string& from, const std::string& to) {
  const auto [found, added] = links_.try_emplace({from, to});
  if (added) {
    found->second.settings = settings_.link;
    if (from == to) found->second.settings.latency = absl::ZeroDuration();
  }
  return found->second;
}

void SimNetwork::SetLink(const std::string& a, const std::string& b, SimLinkSettings settings) {
  LinkOf(a, b).settings = settings;
  LinkOf(b, a).settings = settings;
}

void SimNetwork::CutLink(const std::string& a, const std::string& b) {
  LinkOf(a, b).cut = true;
  LinkOf(b, a).cut = true;
  BreakCalls(a, b);
}

void SimNetwork::HealLink(const std::string& a, const std::string& b) {
  LinkOf(a, b).cut = false;
  LinkOf(b, a).cut = false;
}

void SimNetwork::BreakCalls(const std::string& a, const std::string& b) {
  for (const auto& connection : Connections()) {
    if (connection->Between(a, b)) connection->Break("the link broke");
  }
}

void SimNetwork::BreakCallsAfter(const std::string& a, const std::string& b, uint64_t bytes) {
  const uint64_t at = LinkOf(a, b).sent + LinkOf(b, a).sent + bytes;
  LinkOf(a, b).break_at = at;
  LinkOf(b, a).break_at = at;
}

void SimNetwork::DropProcess(SimEventQueue::Owner owner) {
  for (auto it = listeners_.begin(); it != listeners_.end();) {
    it = it->second->owner == owner ? listeners_.erase(it) : std::next(it);
  }
  for (const auto& connection : Connections()) connection->DropOwner(owner);
}

uint64_t SimNetwork::bytes_sent(const std::string& from, const std::string& to) {
  return LinkOf(from, to).sent;
}

size_t SimNetwork::open_calls() {
  const auto connections = Connections();
  return static_cast<size_t>(std::count_if(connections.begin(), connections.end(),
                                           [](const auto& c) { return !c->over(); }));
}

// How long until `bytes`, queued behind what the link already carries, have left.
absl::Duration SimNetwork::Reserve(const std::string& from, const std::string& to, uint64_t bytes) {
  Link& link = LinkOf(from, to);
  const absl::Duration now = events_.now();
  const absl::Duration start = std::max(now, link.busy_until);
  link.busy_until =
      start + absl::Seconds(static_cast<double>(bytes) / link.settings.bytes_per_second);
  return link.busy_until - now;
}

absl::Duration SimNetwork::Delay(const std::string& from, const std::string& to) {
  const SimLinkSettings& settings = LinkOf(from, to).settings;
  if (settings.jitter == absl::ZeroDuration()) return settings.latency;
  return settings.latency + settings.jitter * random_.Unit();
}

void SimNetwork::CountSent(const std::string& from, const std::string& to, uint64_t bytes) {
  Link& link = LinkOf(from, to);
  Link& back = LinkOf(to, from);
  link.sent += bytes;
  const uint64_t both = from == to ? link.sent : link.sent + back.sent;
  if (both < link.break_at) return;
  link.break_at = back.break_at = std::numeric_limits<uint64_t>::max();
  BreakCalls(from, to);
}

std::vector<std::shared_ptr<SimConnection>> SimNetwork::Connections() {
  std::vector<std::shared_ptr<SimConnection>> live;
  std::vector<std::weak_ptr<SimConnection>> kept;
  for (const auto& weak : connections_) {
    auto connection = weak.lock();
    if (connection == nullptr) continue;
    kept.push_back(weak);
    live.push_back(std::move(connection));
  }
  connections_ = std::move(kept);
  return live;
}

void SimNetwork::Accept(const std::shared_ptr<SimConnection>& connection,
                        const std::weak_ptr<ListenerState>& listener) {
  const auto state = listener.lock();
  if (connection->broken()) return;
  if (state == nullptr) {
    connection->Break("connection refused");
    return;
  }
  // A copy: the acceptor may destroy its listener.
  const Transport::Acceptor acceptor = state->acceptor;
  acceptor(connection->method(), connection->MakeCall(SimConnection::kServer));
  // Whoever receives a call starts it before the loop goes on, or lets it go.
  CHECK(connection->started(SimConnection::kServer) ||
        !connection->attached(SimConnection::kServer));
}

class SimListener final : public Listener {
 public:
  SimListener(SimNetwork& network, std::string address,
              std::weak_ptr<SimNetwork::ListenerState> state)
      : network_(network), address_(std::move(address)), state_(std::move(state)) {}

  ~SimListener() override {
    const auto state = state_.lock();
    if (state == nullptr) return;
    network_.listeners_.erase(address_);
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
  auto state = std::make_shared<SimNetwork::ListenerState>();
  state->process = process_;
  state->owner = owner_;
  state->acceptor = std::move(acceptor);
  if (!network_.listeners_.emplace(bound, state).second) {
    return absl::FailedPreconditionError(absl::StrCat(bound, ": address already in use"));
  }
  return std::make_unique<SimListener>(network_, bound, state);
}

std::unique_ptr<Call> SimTransport::Dial(const std::string& address, const std::string& method,
                                         absl::Duration deadline) {
  const auto found = network_.listeners_.find(address);
  const bool known = found != network_.listeners_.end();
  SimConnection::Party client{process_, owner_, process_};
  SimConnection::Party server{known ? found->second->process : "",
                              known ? found->second->owner : SimEventQueue::kWorld, address};
  auto connection = std::make_shared<SimConnection>(network_, method, std::move(client), server,
                                                    known ? found->second.get() : nullptr);
  network_.connections_.push_back(connection);
  std::unique_ptr<Call> call = connection->MakeCall(SimConnection::kClient);
  connection->SetDeadline(deadline);
  if (!known || network_.LinkOf(process_, server.process).cut) {
    connection->Break(absl::StrCat(address, ": cannot be reached"));
    return call;
  }
  connection->Arrive(SimConnection::kClient,
                     [network = &network_, raw = connection.get(),
                      listener = std::weak_ptr<SimNetwork::ListenerState>(found->second)] {
                       network->Accept(raw->shared_from_this(), listener);
                     });
  return call;
}

}  // namespace atolld
