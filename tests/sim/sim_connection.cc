#include "tests/sim/sim_connection.h"

#include <algorithm>
#include <utility>

#include "compression/base/check.h"

namespace atolld {
namespace {

// Returns the bytes as gRPC would count them: prefix, message, and the payload's field with its tag
// and length.
uint64_t WireBytes(const Frame& frame) {
  uint64_t bytes = 5 + frame.bytes().size();
  if (frame.payload.empty()) return bytes;
  bytes += 1 + frame.payload.size();
  for (uint64_t rest = frame.payload.size(); rest != 0; rest >>= 7) ++bytes;
  return bytes;
}

// Cuts the bytes as a network does, at places where no format would.
ByteParts Cut(const ByteParts& whole) {
  ByteParts cut;
  for (const SharedBytes& part : whole.parts()) {
    const size_t third = part.size() / 3;
    const size_t half = part.size() / 2;
    cut.Append(part.Part(0, third));
    cut.Append(part.Part(third, half - third));
    cut.Append(part.Part(half, part.size() - half));
  }
  return cut;
}

class SimCall final : public Call {
 public:
  SimCall(std::shared_ptr<SimConnection> connection, SimConnection::Side side)
      : connection_(std::move(connection)), side_(side) {}
  ~SimCall() override { connection_->Detach(side_); }

  void Start(Events events) override { connection_->Start(side_, std::move(events)); }
  void Read() override { connection_->Read(side_); }
  void Write(Frame frame) override { connection_->Write(side_, std::move(frame)); }
  size_t unsent_bytes() const override { return connection_->unsent_bytes(side_); }
  void Finish(absl::Status status) override { connection_->Finish(side_, std::move(status)); }
  uint64_t sent_bytes() const override { return connection_->sent_bytes(side_); }
  std::string remote() const override { return connection_->remote(side_); }
  std::optional<Identity> identity() const override { return connection_->identity(side_); }

 private:
  const std::shared_ptr<SimConnection> connection_;
  const SimConnection::Side side_;
};

}  // namespace

SimConnection::SimConnection(Network& network, std::string method, Party client, Party server,
                             const void* listener)
    : network_(network),
      serial_(network.Add(this)),
      method_(std::move(method)),
      listener_(listener),
      dialled_(network.events().now()) {
  links_[kClient] = &network.links().Of(client.process, server.process);
  links_[kServer] = links_[kClient]->back;
  ends_[kClient].party = std::move(client);
  ends_[kServer].party = std::move(server);
}

SimConnection::~SimConnection() { network_.Remove(serial_); }

std::unique_ptr<Call> SimConnection::MakeCall(Side side) {
  ends_[side].attached = true;
  return std::make_unique<SimCall>(shared_from_this(), side);
}

// Runs `function` as an event of the process at `side`.
template <typename Function>
void SimConnection::On(Side side, absl::Duration delay, Function function) {
  network_.events().Schedule(
      delay, ends_[side].party.owner,
      [self = shared_from_this(), function = std::move(function)]() mutable { function(); });
}

void SimConnection::Start(Side side, Call::Events events) {
  End& end = ends_[side];
  CHECK(!end.started);
  end.started = true;
  end.events = std::make_shared<Call::Events>(std::move(events));
  if (end.verdict.has_value()) CloseLater(side, absl::ZeroDuration(), *end.verdict);
  if (end.end.has_value()) {
    On(side, absl::ZeroDuration(), [this, side] { CheckEnd(side); });
  }
}

void SimConnection::Read(Side side) {
  End& end = ends_[side];
  CHECK(end.started);
  if (end.closed) return;
  CHECK(!end.reading);  // at most one Read may be outstanding
  end.reading = true;
  if (!end.inbox.empty()) {
    end.reading = false;
    end.delivering = true;
    On(side, absl::ZeroDuration(), [this, side] { Hand(side); });
  } else if (end.end.has_value()) {
    On(side, absl::ZeroDuration(), [this, side] { CheckEnd(side); });
  }
}

void SimConnection::Write(Side side, Frame frame) {
  End& end = ends_[side];
  CHECK(end.started);
  CHECK(!end.finishing);
  if (broken_) return;
  if (WireBytes(frame) > kSimMaxMessageBytes) return RefuseToSend(side);
  end.unsent += WireBytes(frame);
  network_.OnQueued(end.unsent);
  end.queue.push_back(std::move(frame));
  Pump(side);
}

void SimConnection::RefuseToSend(Side side) {
  broken_ = true;
  const absl::Status status = absl::ResourceExhaustedError("a message beyond the limit");
  CloseLater(side, absl::ZeroDuration(), status);
  Tell(Opposite(side), side == kServer ? status : absl::CancelledError("the client gave up"));
}

void SimConnection::Finish(Side side, absl::Status status) {
  End& end = ends_[side];
  CHECK(end.started);
  CHECK(!end.finishing);
  end.finishing = true;
  end.finish_status = side == kClient ? absl::OkStatus() : std::move(status);
  Pump(side);
}

void SimConnection::Detach(Side side) {
  End& end = ends_[side];
  end.attached = false;
  const auto events = std::move(end.events);  // dies last: its captures may hold anything
  const bool was_closed = std::exchange(end.closed, true);
  end.inbox.clear();
  if (side == kClient) OverForClient();
  if (broken_) return;
  if (side == kServer && was_closed) {
    // The client had half-closed: what is queued goes out, and a status after it.
    if (!end.finishing) Finish(side, absl::OkStatus());
    return;
  }
  if (side == kClient ? was_closed : end.finish_sent) return;
  broken_ = true;
  Tell(Opposite(side), side == kServer ? absl::UnavailableError("the server let the call go")
                                       : absl::CancelledError("the client cancelled the call"));
}

void SimConnection::OverForClient() {
  network_.events().Cancel(deadline_);
  if (!record_.has_value()) return;
  SimRecordedCall recorded = *std::exchange(record_, std::nullopt);
  recorded.finished = ends_[kClient].finish_sent && recorded.frames.size() <= record_limit_;
  if (recorded.frames.size() > record_limit_) recorded.frames.resize(record_limit_);
  if (!recorded.frames.empty()) network_.OnRecorded(std::move(recorded));
}

// Hands the next frame to the link if the window allows it, and the half-close or status after the
// last one.
void SimConnection::Pump(Side side) {
  End& end = ends_[side];
  if (broken_ || end.transmitting || end.finish_sent) return;
  if (end.queue.empty()) {
    if (!end.finishing) return;
    end.finish_sent = true;
    Arrive(side, [this, side] {
      ends_[Opposite(side)].end = ends_[side].finish_status;
      CheckEnd(Opposite(side));
    });
    On(side, absl::ZeroDuration(), [this, side] { CheckEnd(side); });
    return;
  }
  const uint64_t bytes = WireBytes(end.queue.front());
  if (end.in_flight != 0 && end.in_flight + bytes > network_.window_bytes()) return;
  end.transmitting = true;
  end.in_flight += bytes;
  On(side, network_.links().Reserve(*links_[side], bytes), [this, side] { Transmitted(side); });
}

void SimConnection::Transmitted(Side side) {
  End& end = ends_[side];
  end.transmitting = false;
  if (broken_) return;
  Frame frame = std::move(end.queue.front());
  end.queue.pop_front();
  const uint64_t bytes = WireBytes(frame);
  end.unsent -= bytes;
  end.sent += bytes;
  // One more than the limit tells that there was more.
  if (side == kClient && record_.has_value() && record_->frames.size() <= record_limit_) {
    record_->frames.push_back(frame);
  }
  auto arrive = [this, side, frame = std::move(frame)]() mutable {
    End& other = ends_[Opposite(side)];
    if (other.closed) return;
    other.inbox.push_back(std::move(frame));
    if (side == kServer && other.inbox.size() == 1) Taken(kClient);
    if (other.started && other.reading) Hand(Opposite(side));
  };
  Arrive(side, std::move(arrive), bytes);
  network_.OnSent(*links_[side], bytes);
  Pump(side);
  if (end.unsent > kSimLowWaterBytes || end.closed) return;
  const std::shared_ptr<Call::Events> events = end.events;
  if (events != nullptr && events->on_writable) events->on_writable();
}

void SimConnection::Arrive(Side from, Task task, uint64_t bytes) {
  ends_[from].wire.push_back({std::move(task), false, bytes});
  Travel(from);
}

void SimConnection::Tell(Side to, absl::Status status) {
  ends_[Opposite(to)].wire.push_back(
      {[this, to, status = std::move(status)] { CloseNow(to, status); }, true, 0});
  Travel(Opposite(to));
}

void SimConnection::Travel(Side from) {
  End& end = ends_[from];
  const absl::Duration now = network_.events().now();
  end.last_arrival = std::max(end.last_arrival, now + network_.links().Delay(*links_[from]));
  On(Opposite(from), end.last_arrival - now, [this, from] { ArriveNext(from); });
}

void SimConnection::ArriveNext(Side from) {
  const bool stuck = Stuck(from);
  if (stuck || Held(from)) {
    links_[from]->waiting.emplace_back(weak_from_this(), from);
    if (stuck) WatchStuck(from);
    return;
  }
  ends_[from].stuck_since = absl::InfiniteDuration();
  if (from == kClient) taken_ = true;
  const Piece piece = std::move(ends_[from].wire.front());
  ends_[from].wire.pop_front();
  if (piece.always || !broken_) piece.task();
}

// A connection needs packets in both directions.
bool SimConnection::Held(Side from) const {
  const absl::Duration now = network_.events().now();
  const SimLink& link = *links_[from];
  return link.Held(now) || (from == kClient && !taken_ && link.back->Held(now));
}

bool SimConnection::Stuck(Side from) const {
  const SimLink& link = *links_[from];
  if (from == kClient && link.to_host->hidden && link.to_host != link.from_host) return true;
  return link.small_only && ends_[from].wire.front().bytes > kSimSmallFrame;
}

// A probe would be stuck behind it.
void SimConnection::WatchStuck(Side from) {
  absl::Duration& since = ends_[from].stuck_since;
  if (since != absl::InfiniteDuration()) return;
  since = network_.events().now();
  SimLink& link = *links_[from];
  if (link.small_only) link.stuck_since = std::min(link.stuck_since, since);
  network_.events().Schedule(network_.keepalive(), SimEventQueue::kWorld,
                             [self = weak_from_this(), from, stuck = since] {
                               const std::shared_ptr<SimConnection> call = self.lock();
                               if (call == nullptr || call->ends_[from].stuck_since != stuck)
                                 return;
                               call->Lose("the keepalive had no answer");
                             });
}

// Tells the sender that the first frame of the inbox no longer takes up the window. At a server's
// end only the process takes frames; a client's end reads one frame ahead.
void SimConnection::Taken(Side side) {
  const uint64_t bytes = WireBytes(ends_[side].inbox.front());
  Arrive(side, [this, sender = Opposite(side), bytes] {
    ends_[sender].in_flight -= bytes;
    Pump(sender);
  });
}

// Gives the process the first frame of the inbox.
void SimConnection::Hand(Side side) {
  End& end = ends_[side];
  end.reading = end.delivering = false;
  if (end.closed || end.inbox.empty()) return;
  if (side == kServer) Taken(side);
  Frame frame = std::move(end.inbox.front());
  end.inbox.pop_front();
  network_.events().MixIntoDigest(WireBytes(frame));
  if (side == kClient && !end.inbox.empty()) Taken(side);
  if (end.end.has_value()) {
    On(side, absl::ZeroDuration(), [this, side] { CheckEnd(side); });
  }
  const std::shared_ptr<Call::Events> events = end.events;
  if (events == nullptr || !events->on_frame) return;
  if (events->takes_parts) frame.payload = Cut(frame.payload);
  events->on_frame(std::move(frame));
}

void SimConnection::CheckEnd(Side side) {
  End& end = ends_[side];
  if (end.closed || !end.started || end.delivering) return;
  if (side == kServer && end.finish_sent) return CloseNow(side, absl::OkStatus());
  if (!end.end.has_value() || !end.inbox.empty()) return;
  if (side == kClient || end.reading) CloseNow(side, *end.end);
}

void SimConnection::CloseNow(Side side, absl::Status status) {
  End& end = ends_[side];
  if (end.closed) return;
  if (!end.started) {
    end.verdict = std::move(status);
    return;
  }
  end.closed = true;
  end.inbox.clear();
  if (side == kClient) OverForClient();
  const std::shared_ptr<Call::Events> events = end.events;
  if (events != nullptr && events->on_closed) events->on_closed(std::move(status));
}

void SimConnection::CloseLater(Side side, absl::Duration delay, absl::Status status) {
  On(side, delay, [this, side, status = std::move(status)] { CloseNow(side, status); });
}

void SimConnection::SetDeadline(absl::Duration deadline) {
  if (deadline == absl::InfiniteDuration()) return;
  deadline_ = network_.events().Schedule(
      deadline, ends_[kClient].party.owner, [self = shared_from_this(), this] {
        if (ends_[kClient].closed) return;
        if (!broken_) {
          broken_ = true;
          Tell(kServer, absl::CancelledError("the call's deadline has passed"));
        }
        CloseNow(kClient, absl::DeadlineExceededError("the call's deadline has passed"));
      });
}

void SimConnection::Record(size_t frames) {
  record_limit_ = frames;
  record_.emplace();
  record_->process = ends_[kClient].party.process;
  record_->address = ends_[kServer].party.address;
  record_->method = method_;
}

void SimConnection::Break(const std::string& why) {
  if (broken_) return;
  broken_ = true;
  for (const Side side : {kClient, kServer}) {
    CloseLater(side, network_.links().Delay(*links_[Opposite(side)]), absl::UnavailableError(why));
  }
}

void SimConnection::Refuse(const std::string& why) {
  if (broken_) return;
  broken_ = true;
  Tell(kClient, absl::UnavailableError(why));
}

// Also applies if one end is over and its last message to the other is held.
void SimConnection::Lose(const std::string& why) {
  broken_ = true;
  for (const Side side : {kClient, kServer}) {
    CloseLater(side, absl::ZeroDuration(), absl::UnavailableError(why));
  }
}

void SimConnection::DropOwner(SimEventQueue::Owner owner) {
  for (const Side side : {kClient, kServer}) {
    if (ends_[side].party.owner != owner || broken_) continue;
    broken_ = true;
    Tell(Opposite(side), absl::UnavailableError("the process at the other end is gone"));
  }
}

bool SimConnection::Between(const std::string& a, const std::string& b) const {
  const std::string& client = ends_[kClient].party.process;
  const std::string& server = ends_[kServer].party.process;
  return (client == a && server == b) || (client == b && server == a);
}

bool SimConnection::over() const {
  return (ends_[kClient].closed || !ends_[kClient].attached) &&
         (ends_[kServer].closed || !ends_[kServer].attached);
}

}  // namespace atolld
