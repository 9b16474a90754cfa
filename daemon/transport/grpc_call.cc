#include "daemon/transport/grpc_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "daemon/transport/connection_failure.h"
#include "daemon/transport/grpc_values.h"
#include "daemon/transport/line_relay.h"

namespace atolld {
namespace {

// gRPC counts in 32-bit milliseconds in places; ten years of waiting are as good as for ever.
constexpr absl::Duration kLongestDeadline = absl::Hours(24 * 365 * 10);

absl::Status BrokenByClient() {
  return absl::CancelledError("the client cancelled the call or its link broke");
}

// Returns "ipv4:127.0.0.1:80", "ipv6:%5B::1%5D:80" or "unix:..." in the form in which people write
// addresses.
std::string PlainPeer(absl::string_view peer) {
  if (absl::ConsumePrefix(&peer, "unix-abstract:") && absl::ConsumePrefix(&peer, kRelayedName)) {
    peer.remove_prefix(std::min(peer.find('/'), peer.size() - 1) + 1);
  }
  if (!absl::ConsumePrefix(&peer, "ipv4:")) absl::ConsumePrefix(&peer, "ipv6:");
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

// Finds out why the connection of a call was not made, and then tells the owner that the call is
// over, with `status` if nothing wrong was found.
void LookWhy(Executor& executor, const std::shared_ptr<LoopEnd>& end, const Dialled& dialled,
             const absl::Status& status) {
  // From the loop: the pool may be used from there alone.
  executor.Post([&executor, end, probe = dialled.probe, address = dialled.address, status] {
    const auto found = std::make_shared<absl::Status>();
    executor.Offload([probe, found] { *found = probe(); },
                     [end, found, address, status] {
                       end->PostClosed(found->ok() ? status
                                                   : absl::UnavailableError(absl::StrCat(
                                                         address, ": ", found->message())));
                     });
  });
}

// The common part of the reactors of both ends; GrpcReactor is gRPC's class of one end.
template <typename GrpcReactor>
class Reactor : public Wire, public GrpcReactor {
 protected:
  Reactor(std::shared_ptr<LoopEnd> end, size_t most_bytes, std::shared_ptr<LiveCalls> live)
      : Wire(std::move(end), most_bytes), live_(std::move(live)) {}

  void StartReadLocked() final { this->StartRead(&incoming_); }

  void StartWriteLocked(const grpc::ByteBuffer& buffer, bool more_follows) final {
    // With more to follow at once, gRPC may gather small frames into one packet.
    grpc::WriteOptions options;
    if (more_follows) options.set_buffer_hint();
    live_->CountSent(buffer.Length());
    this->StartWrite(&buffer, options);
  }

  void OnWriteDone(bool ok) final { WriteEnded(ok); }

  void CountReceived(const grpc::ByteBuffer& buffer) { live_->CountReceived(buffer.Length()); }

  // The last thing that is done: this may be gone afterwards.
  void Retire() {
    const std::shared_ptr<LiveCalls> live = live_;
    live->Retire(this);
  }

  grpc::ByteBuffer incoming_;  // gRPC's while a read is under way

 private:
  const std::shared_ptr<LiveCalls> live_;
};

class ClientReactor final
    : public Reactor<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  ClientReactor(Executor& executor, std::shared_ptr<LoopEnd> end, std::shared_ptr<LiveCalls> live,
                Dialled dialled)
      : Reactor(std::move(end), kMaxMessageBytes, std::move(live)),
        executor_(executor),
        dialled_(std::move(dialled)) {}

  // Finds the channel, then begins. The owner's deadline counts from here.
  void Start();

 private:
  void Begin(std::shared_ptr<grpc::Channel> channel);
  void Fail(const absl::Status& why);

  void FinishLocked(const absl::Status& status) override;
  void BreakLocked(bool gently) override;
  void WriteBrokeLocked() override;

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  absl::Status Translate(const grpc::Status& status);
  bool broken_here();

  // Constant after construction.
  Executor& executor_;
  const Dialled dialled_;

  std::shared_ptr<grpc::Channel> channel_;  // set before the call begins
  grpc::ClientContext context_;
  std::atomic<bool> heard_{false};  // a frame came: the connection was made
};

class ServerReactor final : public Reactor<grpc::ServerGenericBidiReactor> {
 public:
  ServerReactor(std::shared_ptr<LoopEnd> end, std::shared_ptr<LiveCalls> live,
                grpc::GenericCallbackServerContext* context)
      : Reactor(std::move(end), MostBytesServed(context->method()), std::move(live)),
        context_(context) {
    started_ = true;
  }

 private:
  void FinishLocked(const absl::Status& status) override;
  void BreakLocked(bool gently) override;
  void WriteBrokeLocked() override;

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Guarded by mutex_.
  grpc::GenericCallbackServerContext* context_;  // null once gRPC has ended the call
  bool cancelled_ = false;
};

// -----------------------------------------------------------------------------------------------

void ClientReactor::Start() {
  if (dialled_.deadline < kLongestDeadline) context_.set_deadline(DeadlineIn(dialled_.deadline));
  // LiveCalls keeps this until Retire.
  dialled_.connect([this](absl::StatusOr<std::shared_ptr<grpc::Channel>> channel) {
    if (channel.ok()) {
      Begin(*std::move(channel));
    } else {
      Fail(channel.status());
    }
  });
}

void ClientReactor::Fail(const absl::Status& why) {
  bool told = false;
  {
    std::deque<Frame> dropped;
    const std::lock_guard<std::mutex> lock(mutex_);
    told = std::exchange(over_, true);
    dropped = DropQueueLocked();
  }
  if (!told) {
    dialled_.on_unavailable(nullptr, /*heard=*/false);
    end_->PostClosed(absl::UnavailableError(absl::StrCat(dialled_.address, ": ", why.message())));
  }
  Retire();
}

void ClientReactor::Begin(std::shared_ptr<grpc::Channel> channel) {
  channel_ = std::move(channel);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!over_) {
      grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, dialled_.method, {}, this);
      // The loop starts operations at any time; the hold keeps the call until no more can come.
      AddHold();
      started_ = true;
      reading_ = true;
      StartReadLocked();
      StartCall();
      PumpLocked();
      return;
    }
  }
  Retire();  // broken before it began, and its owner was told
}

void ClientReactor::FinishLocked(const absl::Status& /*status*/) {
  finished_ = true;
  StartWritesDone();
}

void ClientReactor::BreakLocked(bool /*gently*/) {
  if (over_) return;
  over_ = true;
  if (!started_) return;
  context_.TryCancel();
  RemoveHold();
}

// The frames that the server sent before it ended the call can still be read.
void ClientReactor::WriteBrokeLocked() {}

void ClientReactor::OnReadDone(bool ok) {
  if (ok) {
    heard_ = true;
    grpc::ByteBuffer buffer;
    buffer.Swap(&incoming_);
    CountReceived(buffer);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      reading_ = false;
    }
    FrameCame(buffer);
    return;
  }
  std::deque<Frame> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  reading_ = false;
  if (over_) return;
  over_ = true;
  dropped = DropQueueLocked();
  RemoveHold();
}

void ClientReactor::OnDone(const grpc::Status& status) {
  const bool unavailable = status.error_code() == grpc::StatusCode::UNAVAILABLE;
  // Nor was it made where the owner has given up first.
  const bool unmade = !heard_ && channel_->GetState(false) != GRPC_CHANNEL_READY;
  if (unavailable || unmade) dialled_.on_unavailable(channel_, heard_);
  const std::string& said = status.error_message();
  const bool unclear = dialled_.relayed || (!ConnectionErrorOf(said) && MayBeHandshake(said));
  if (unavailable && !heard_ && !broken_here() && unclear) {
    LookWhy(executor_, end_, dialled_, Translate(status));
  } else {
    end_->PostClosed(Translate(status));
  }
  Retire();
}

bool ClientReactor::broken_here() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !break_status_.ok();
}

absl::Status ClientReactor::Translate(const grpc::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!break_status_.ok()) return break_status_;
  }
  if (status.ok()) return absl::OkStatus();
  // This side has not cancelled, so the other did: to us the call is broken.
  const absl::StatusCode code = status.error_code() == grpc::StatusCode::CANCELLED
                                    ? absl::StatusCode::kUnavailable
                                    : FromGrpc(status).code();
  if (code == absl::StatusCode::kUnavailable && !heard_) {
    const std::optional<absl::Status> why = ConnectionErrorOf(status.error_message());
    if (why) return absl::Status(code, absl::StrCat(dialled_.address, ": ", why->message()));
  }
  return absl::Status(code, absl::StrCat(dialled_.address, ": ", status.error_message()));
}

// -----------------------------------------------------------------------------------------------

void ServerReactor::FinishLocked(const absl::Status& status) {
  if (finished_) return;
  finished_ = true;
  over_ = true;
  Finish(ToGrpc(status));
}

void ServerReactor::BreakLocked(bool gently) {
  if (context_ == nullptr) return;
  // A write that waits for the client's window, or a status behind it, would hold the call for as
  // long as the client likes; cancelling ends both.
  if (!gently || writing_ || finished_) context_->TryCancel();
  // With a write under way, its end brings the status.
  writes_broken_ = true;
  if (!writing_) FinishLocked(break_status_);
}

void ServerReactor::WriteBrokeLocked() {
  if (context_ != nullptr && !cancelled_) context_->TryCancel();
  FinishLocked(break_status_.ok() ? absl::CancelledError() : break_status_);
}

void ServerReactor::OnReadDone(bool ok) {
  grpc::ByteBuffer buffer;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffer.Swap(&incoming_);
    reading_ = !ok;  // after the end of the stream there is nothing more to ask for
  }
  if (ok) {
    CountReceived(buffer);
    FrameCame(buffer);
  } else {
    end_->PostReadEnded();
  }
}

void ServerReactor::OnCancel() {
  end_->PostClosed(BrokenByClient());
  std::deque<Frame> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  writes_broken_ = true;
  dropped = DropQueueLocked();
  if (!writing_) FinishLocked(absl::CancelledError());
}

void ServerReactor::OnDone() {
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    context_ = nullptr;
    status = writes_broken_ && break_status_.ok() ? BrokenByClient() : break_status_;
  }
  end_->PostClosed(std::move(status));
  Retire();
}

// -----------------------------------------------------------------------------------------------

// The common part of the calls of both ends.
class GrpcCall : public Call {
 public:
  GrpcCall(std::shared_ptr<LoopEnd> end, std::shared_ptr<Wire> wire, std::string remote,
           std::optional<Identity> identity)
      : end_(std::move(end)),
        wire_(std::move(wire)),
        remote_(std::move(remote)),
        identity_(std::move(identity)) {}

  void Start(Events events) override {
    if (events.takes_parts) wire_->GiveParts();
    end_->Start(wire_, std::move(events));
  }
  void Read() override { end_->Read(); }
  void Write(Frame frame) override {
    CHECK(!finished_);
    wire_->Send(std::move(frame));
  }
  size_t unsent_bytes() const override { return wire_->unsent_bytes(); }
  void Finish(absl::Status status) override {
    finished_ = true;
    wire_->End(status);
  }
  uint64_t sent_bytes() const override { return wire_->sent_bytes(); }
  std::string remote() const override { return remote_; }
  std::optional<Identity> identity() const override { return identity_; }

 protected:
  const std::shared_ptr<LoopEnd> end_;
  const std::shared_ptr<Wire> wire_;

 private:
  const std::string remote_;
  const std::optional<Identity> identity_;
  bool finished_ = false;
};

class ClientCall final : public GrpcCall {
 public:
  ClientCall(std::shared_ptr<LiveCalls> live, std::shared_ptr<LoopEnd> end,
             std::shared_ptr<ClientReactor> reactor, std::string address)
      : GrpcCall(std::move(end), reactor, std::move(address), std::nullopt),
        live_(std::move(live)),
        reactor_(*reactor) {}

  ~ClientCall() override {
    end_->Detach();
    if (!end_->closed()) wire_->Break(absl::CancelledError(), /*gently=*/false);
  }

  void Start(Events events) override {
    GrpcCall::Start(std::move(events));
    if (live_->Add(wire_)) {
      reactor_.Start();
    } else {
      wire_->Break(absl::UnavailableError("the transport was closed"), /*gently=*/false);
    }
  }

 private:
  const std::shared_ptr<LiveCalls> live_;
  ClientReactor& reactor_;  // wire_
};

class ServerCall final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

  ~ServerCall() override {
    end_->Detach();
    if (end_->closed() && end_->closed_status().ok()) {
      // No further callback would come, so the owner cannot wait for what it has queued.
      wire_->End(absl::OkStatus());
    } else {
      wire_->Break(absl::CancelledError("the server dropped the call"), /*gently=*/false);
    }
  }
};

}  // namespace

bool LiveCalls::Add(std::shared_ptr<Wire> wire) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return false;
  const Wire* const key = wire.get();
  calls_.emplace(key, std::move(wire));
  return true;
}

void LiveCalls::Retire(const Wire* wire) {
  // All under the lock: once nothing is left, the executor may go.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(wire);
  if (found == calls_.end()) return;
  executor_.Post([last = std::move(found->second)] {});
  calls_.erase(found);
  if (calls_.empty()) empty_.notify_all();
}

void LiveCalls::Close(const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  Break(status);
}

void LiveCalls::Break(const absl::Status& status) {
  std::vector<std::shared_ptr<Wire>> wires;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, wire] : calls_) wires.push_back(wire);
  }
  for (const auto& wire : wires) wire->Break(status, /*gently=*/true);
}

void LiveCalls::WaitUntilEmpty() {
  std::unique_lock<std::mutex> lock(mutex_);
  empty_.wait(lock, [this] { return calls_.empty(); });
}

// -----------------------------------------------------------------------------------------------

std::unique_ptr<Call> MakeClientCall(Executor& executor, std::shared_ptr<LiveCalls> live,
                                     Dialled dialled) {
  auto end = std::make_shared<LoopEnd>(executor, /*reads_ahead=*/true);
  std::string address = dialled.address;
  auto reactor = std::make_shared<ClientReactor>(executor, end, live, std::move(dialled));
  return std::make_unique<ClientCall>(std::move(live), std::move(end), std::move(reactor),
                                      std::move(address));
}

grpc::ServerGenericBidiReactor* TakeServerCall(Executor& executor,
                                               const std::shared_ptr<LiveCalls>& live,
                                               grpc::GenericCallbackServerContext* context,
                                               std::optional<Identity> identity, CallTaker take) {
  auto end = std::make_shared<LoopEnd>(executor, /*reads_ahead=*/false);
  auto reactor = std::make_shared<ServerReactor>(end, live, context);
  if (!live->Add(reactor)) return nullptr;
  executor.Post([take = std::move(take), end, reactor, method = context->method(),
                 peer = PlainPeer(context->peer()), identity = std::move(identity)] {
    take(method, std::make_unique<ServerCall>(end, reactor, peer, identity));
  });
  return reactor.get();
}

}  // namespace atolld
