#include "daemon/coordinator/session_stream.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "membership/planning/message_sizes.h"
#include "membership/run/admission.h"
#include "membership/run/door.h"

namespace atolld {
namespace {

// The most that the coordinator holds for a peer that does not read. Above this the peer is
// dropped, and learns what it missed from the next Welcome.
constexpr size_t kMostUnsent = size_t{16} << 20;

// The time for the messages sent before the end. What is not read by then is dropped.
constexpr absl::Duration kLastWords = absl::Seconds(30);

}  // namespace

SessionStream::SessionStream(Env env, std::unique_ptr<Call> call, absl::Duration hello_timeout,
                             double messages_per_second, Events events)
    : env_(env),
      call_(std::move(call)),
      events_(std::move(events)),
      pace_(messages_per_second, 2 * messages_per_second) {
  Call::Events heard;
  heard.on_frame = guard_.Wrap([this](const Frame& frame) { OnFrame(frame); });
  heard.on_closed = guard_.Wrap([this](const absl::Status&) { OnClosed(); });
  call_->Start(std::move(heard));
  call_->Read();
  env_.executor.RunAfter(hello_timeout, guard_.Wrap([this] {
    if (!said_hello_) End(absl::DeadlineExceededError("no Hello came"));
  }));
}

void SessionStream::Send(const Frame& frame) {
  if (ended_ || closed_) return;
  if (call_->unsent_bytes() > kMostUnsent) {
    End(absl::ResourceExhaustedError("the peer does not read what it is sent"));
    return;
  }
  call_->Write(frame);
}

void SessionStream::End(const absl::Status& status) {
  if (ended_ || closed_) return;
  ended_ = true;
  call_->Finish(status);
  env_.executor.RunAfter(kLastWords, guard_.Wrap([this] { OnClosed(); }));
}

void SessionStream::OnFrame(const Frame& frame) {
  if (ended_ || closed_) return;
  if (frame.message.size() > kMostSessionBytes) {
    End(absl::ResourceExhaustedError(
        absl::StrCat("a message of ", frame.message.size(), " bytes; 1 MiB is the limit")));
    return;
  }
  v1::PeerMessage message;
  absl::Status parsed = Unpack(frame, &message);
  if (parsed.ok()) parsed = TidyAtTheDoor(&message);
  if (!parsed.ok()) {
    End(parsed);
    return;
  }
  if (said_hello_) {
    events_.on_message(message);
  } else if (message.has_hello()) {
    const absl::Status named = CheckCaller(message.hello());
    if (!named.ok()) {
      End(named);
      return;
    }
    said_hello_ = true;
    peer_ = message.hello().peer();
    events_.on_hello(message.hello());
  } else {
    End(absl::InvalidArgumentError("the first message of a session must be a Hello"));
    return;
  }
  if (!ended_ && !closed_) ReadNext();
}

void SessionStream::ReadNext() {
  const absl::Duration wait = pace_.Charge(env_.executor.Now());
  if (wait == absl::ZeroDuration()) return call_->Read();
  if (!std::exchange(throttled_, true)) {
    env_.log.Warning(absl::StrCat("peer ", peer_,
                                  " sends more than [limits] session_messages allows: its Session "
                                  "is read no faster from now on"));
  }
  env_.executor.RunAfter(wait, guard_.Wrap([this] {
    if (!ended_ && !closed_) call_->Read();
  }));
}

absl::Status SessionStream::CheckCaller(const v1::Hello& hello) const {
  const std::optional<Identity> caller = call_->identity();
  if (!caller) return absl::OkStatus();
  const Role role = hello.role() == kAggregatorRole ? Role::kAggregator : Role::kPeer;
  if (hello.peer() == caller->id && role == caller->role) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the certificate is for ", Describe(*caller), ", and the Hello is from ", RoleName(role), " ",
      hello.peer().substr(0, 64), ": [peer] id and role must be the certificate's"));
}

void SessionStream::OnClosed() {
  if (closed_) return;
  closed_ = true;
  events_.on_closed();
}

const Frame& PackedMessages::Of(const std::shared_ptr<const v1::CoordinatorMessage>& message) {
  Packed& packed = packed_[message.get()];
  if (packed.message.lock() == message) return packed.frame;  // else it has another one's place
  packed = {message, PackShared(*message)};
  return packed.frame;
}

void PackedMessages::ForgetOld() {
  for (auto it = packed_.begin(); it != packed_.end();) {
    it = it->second.message.expired() ? packed_.erase(it) : std::next(it);
  }
}

}  // namespace atolld
