// One simulated call: two ends, each with its queue out, its window and its inbox.
//
// What one end sends waits in that direction's wire, in order, and each arrival takes the first: so
// neither jitter nor a held link can change the order. A server's end whose client has half-closed
// hears on_closed(OK) when all was read and it asks for more (or has finished); what it still
// writes before its Finish goes out all the same, as over gRPC. A client hears the server's status
// once all frames before it were read. A break or a cancel drops what was not yet read.
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

// on_writable: a write has ended and unsent_bytes() is at this or below.
inline constexpr size_t kSimLowWaterBytes = size_t{256} << 10;
// A larger message ends its call, as production's limit does.
inline constexpr size_t kSimMaxMessageBytes = (size_t{4} << 20) + (size_t{64} << 10);

class SimConnection : public std::enable_shared_from_this<SimConnection> {
 public:
  enum Side { kClient = 0, kServer = 1 };

  struct Party {
    std::string process;
    SimEventQueue::Owner owner;
    std::string address;  // as the other side names it
    std::optional<Identity> identity{};
  };

  // What the connections of one network share, and what they tell it.
  class Network {
   public:
    virtual ~Network() = default;
    virtual SimEventQueue& events() = 0;
    virtual SimLinks& links() = 0;
    virtual uint64_t window_bytes() const = 0;            // of a call, one direction
    virtual uint64_t Add(SimConnection* connection) = 0;  // gives its serial
    virtual void Remove(uint64_t serial) = 0;
    virtual void OnQueued(uint64_t bytes) = 0;  // so many wait at one end
    virtual void OnSent(SimLink& link, uint64_t bytes) = 0;
    virtual void OnRecorded(SimRecordedCall call) = 0;  // it is over
  };

  // `listener` tells calls of one listener apart, and is never followed.
  SimConnection(Network& network, std::string method, Party client, Party server,
                const void* listener);
  ~SimConnection();

  const std::string& method() const { return method_; }
  bool AcceptedThrough(const void* listener) const { return listener_ == listener; }
  absl::Duration dialled() const { return dialled_; }
  SimLink& link(Side from) const { return *links_[from]; }

  std::unique_ptr<Call> MakeCall(Side side);

  // What a Call does.
  void Start(Side side, Call::Events events);
  void Read(Side side);
  void Write(Side side, Frame frame);
  void Finish(Side side, absl::Status status);
  void Detach(Side side);
  size_t unsent_bytes(Side side) const { return ends_[side].unsent; }
  uint64_t sent_bytes(Side side) const { return ends_[side].sent; }
  const std::string& remote(Side side) const { return ends_[1 - side].party.address; }
  // The client's, at the server's end.
  std::optional<Identity> identity(Side side) const {
    return side == kServer ? ends_[kClient].party.identity : std::nullopt;
  }

  // What the network does.
  void SetDeadline(absl::Duration deadline);
  void Record(size_t frames);           // so that it can be made again once it is over
  void Break(const std::string& why);   // both ends hear of it after the latency
  void Refuse(const std::string& why);  // the server's machine tells the client
  void Lose(const std::string& why);    // each end finds out by itself, now
  void DropOwner(SimEventQueue::Owner owner);
  void Arrive(Side from, Task task);  // runs it at the other end, after what was sent before
  void Travel(Side from);             // one more of `from`'s wire is under way
  bool Between(const std::string& a, const std::string& b) const;
  bool broken() const { return broken_; }
  bool started(Side side) const { return ends_[side].started; }
  bool attached(Side side) const { return ends_[side].attached; }
  bool over() const;

 private:
  struct End {
    Party party;
    bool attached = false;  // its Call lives
    bool started = false;
    bool closed = false;  // on_closed was called, or never will be
    std::shared_ptr<Call::Events> events;

    // Out.
    std::deque<Frame> queue;
    size_t unsent = 0;
    uint64_t sent = 0;
    uint64_t in_flight = 0;  // handed to the wire, not yet taken by the other end's Read
    bool transmitting = false;
    bool finishing = false;
    bool finish_sent = false;
    absl::Status finish_status;
    std::deque<std::pair<Task, bool>> wire;  // true: also once the call is broken
    absl::Duration last_arrival;

    // In.
    std::deque<Frame> inbox;
    bool reading = false;
    bool delivering = false;
    std::optional<absl::Status> end;      // the other end's last word
    std::optional<absl::Status> verdict;  // a break or cancel that came before Start
  };

  static Side Opposite(Side side) { return side == kClient ? kServer : kClient; }
  void Pump(Side side);
  void Transmitted(Side side);
  void RefuseToSend(Side side);
  void ArriveNext(Side from);
  void Taken(Side side);
  void Hand(Side side);
  void CheckEnd(Side side);
  void CloseNow(Side side, absl::Status status);
  void CloseLater(Side side, absl::Duration delay, absl::Status status);
  void Tell(Side to, absl::Status status);  // over the wire, that the call is over
  void OverForClient();
  template <typename Function>
  void On(Side side, absl::Duration delay, Function function);

  Network& network_;
  const uint64_t serial_;
  const std::string method_;
  const void* const listener_;
  const absl::Duration dialled_;

  bool broken_ = false;
  SimEventQueue::Id deadline_ = 0;
  End ends_[2];
  SimLink* links_[2];  // from each end to the other
  std::optional<SimRecordedCall> record_;
  size_t record_limit_ = 0;
};

}  // namespace atolld
