// One simulated call: two ends, each with its outgoing queue, its window and its inbox.
//
// The frames that one end sends wait in order in the wire of that direction, and each arrival takes
// the first piece. Therefore neither jitter nor a held link can change the order. Behind a frame
// that cannot get through, nothing arrives until the keepalive ends the call. A call is accepted
// once both directions let it through. If the client has half-closed, the server's end gets
// on_closed(OK) when it has read everything and asks for more, or has finished. Frames that it
// writes before its Finish are still sent, as over gRPC. A client gets the server's status once it
// has read all frames before it. A break or a cancel drops the frames that were not read yet.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_links.h"
#include "tests/sim/sim_replay.h"

namespace atolld {

// on_writable is called when a write has ended and unsent_bytes() is at most this.
inline constexpr size_t kSimLowWaterBytes = size_t{256} << 10;
// A larger message ends its call, as the limit in production does.
inline constexpr size_t kSimMaxMessageBytes = (size_t{4} << 20) + (size_t{64} << 10);

class SimConnection : public std::enable_shared_from_this<SimConnection> {
 public:
  enum Side { kClient = 0, kServer = 1 };

  struct Party {
    std::string process;
    SimEventQueue::Owner owner;
    std::string address;  // the address that the other side sees
    std::optional<Identity> identity{};
  };

  // The data that the connections of one network share, and the events that they report to the
  // network.
  class Network {
   public:
    virtual ~Network() = default;
    virtual SimEventQueue& events() = 0;
    virtual SimLinks& links() = 0;
    virtual uint64_t window_bytes() const = 0;            // per call and direction
    virtual absl::Duration keepalive() const = 0;         // see SimNetworkSettings
    virtual uint64_t Add(SimConnection* connection) = 0;  // Returns the connection's serial.
    virtual void Remove(uint64_t serial) = 0;
    virtual void OnQueued(uint64_t bytes) = 0;  // Reports the number of bytes that wait at one end.
    virtual void OnSent(SimLink& link, uint64_t bytes) = 0;
    virtual void OnRecorded(SimRecordedCall call) = 0;  // Reports a recorded call that is over.
  };

  // `listener` only distinguishes the calls of different listeners, and is never dereferenced.
  SimConnection(Network& network, std::string method, Party client, Party server,
                const void* listener);
  ~SimConnection();

  const std::string& method() const { return method_; }
  bool AcceptedThrough(const void* listener) const { return listener_ == listener; }
  absl::Duration dialled() const { return dialled_; }
  SimLink& link(Side from) const { return *links_[from]; }

  std::unique_ptr<Call> MakeCall(Side side);

  // These functions are called by the ends' Call objects.
  void Start(Side side, Call::Events events);
  void Read(Side side);
  void Write(Side side, Frame frame);
  void Finish(Side side, absl::Status status);
  void Detach(Side side);
  size_t unsent_bytes(Side side) const { return ends_[side].unsent; }
  uint64_t sent_bytes(Side side) const { return ends_[side].sent; }
  const std::string& remote(Side side) const { return ends_[1 - side].party.address; }
  // Returns the client's identity at the server's end.
  std::optional<Identity> identity(Side side) const {
    return side == kServer ? ends_[kClient].party.identity : std::nullopt;
  }

  // These functions are called by the network.
  void SetDeadline(absl::Duration deadline);
  // Records the first `frames`, so that the call can be made again once it is over.
  void Record(size_t frames);
  void Break(const std::string& why);   // Both ends are told after the latency.
  void Refuse(const std::string& why);  // The server's machine tells the client.
  void Lose(const std::string& why);    // Each end notices the loss by itself, now.
  void DropOwner(SimEventQueue::Owner owner);
  // Runs `task` at the other end, after all pieces that were sent before it. It takes up `bytes` on
  // the link.
  void Arrive(Side from, Task task, uint64_t bytes = 0);
  void Travel(Side from);  // Called when one more piece of `from`'s wire is under way.
  bool Between(const std::string& a, const std::string& b) const;
  bool broken() const { return broken_; }
  bool started(Side side) const { return ends_[side].started; }
  bool attached(Side side) const { return ends_[side].attached; }
  bool over() const;

 private:
  struct Piece {  // A piece of what is on the wire.
    Task task;
    bool always;  // delivered even if the call is broken
    uint64_t bytes;
  };
  struct End {
    Party party;
    bool attached = false;  // true if its Call object exists
    bool started = false;
    bool closed = false;  // true if on_closed was called or will never be called
    std::shared_ptr<Call::Events> events;

    // Outgoing.
    std::deque<Frame> queue;
    size_t unsent = 0;
    uint64_t sent = 0;
    uint64_t in_flight = 0;  // bytes handed to the wire that the other end's Read has not taken yet
    bool transmitting = false;
    bool finishing = false;
    bool finish_sent = false;
    absl::Status finish_status;
    std::deque<Piece> wire;
    // The time since which the first piece of the wire has been stuck; InfiniteDuration if it is
    // not.
    absl::Duration stuck_since = absl::InfiniteDuration();
    absl::Duration last_arrival;

    // Incoming.
    std::deque<Frame> inbox;
    bool reading = false;
    bool delivering = false;
    std::optional<absl::Status> end;      // The other end's final status.
    std::optional<absl::Status> verdict;  // A break or cancel that came before Start.
  };

  static Side Opposite(Side side) { return side == kClient ? kServer : kClient; }
  void Pump(Side side);
  void Transmitted(Side side);
  void RefuseToSend(Side side);
  void ArriveNext(Side from);
  bool Held(Side from) const;   // true if the links hold the first piece of its wire
  bool Stuck(Side from) const;  // true if they hold it because of its size or its destination
  void WatchStuck(Side from);
  void Taken(Side side);
  void Hand(Side side);
  void CheckEnd(Side side);
  void CloseNow(Side side, absl::Status status);
  void CloseLater(Side side, absl::Duration delay, absl::Status status);
  void Tell(Side to, absl::Status status);  // Tells over the wire that the call is over.
  void OverForClient();
  template <typename Function>
  void On(Side side, absl::Duration delay, Function function);

  Network& network_;
  const uint64_t serial_;
  const std::string method_;
  const void* const listener_;
  const absl::Duration dialled_;

  bool broken_ = false;
  bool taken_ = false;  // True once the client's first piece has arrived.
  SimEventQueue::Id deadline_ = 0;
  End ends_[2];
  SimLink* links_[2];  // The links from each end to the other.
  std::optional<SimRecordedCall> record_;
  size_t record_limit_ = 0;
};

}  // namespace atolld
