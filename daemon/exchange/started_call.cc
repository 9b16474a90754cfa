#include "daemon/exchange/started_call.h"

#include <utility>

namespace atolld {
namespace {

constexpr absl::Duration kKept = absl::Seconds(30);
constexpr size_t kMaxKept = 64;

}  // namespace

StartedCall::StartedCall(Executor& executor, std::unique_ptr<Call> inner)
    : ForwardingCall(std::move(inner)), executor_(executor) {}

void StartedCall::Start(Events events) {
  events_ = std::make_shared<const Events>(std::move(events));
  if (started_) {
    // An owner that starts the call after its end is still told of the end, but not inside this
    // call.
    if (closed_) executor_.Post(guard_.Wrap([this, told = events_] { TellClosed(told); }));
    return;
  }
  started_ = true;
  // Each callback first copies the pointer to the events, because while it runs the events may be
  // replaced or this object destroyed.
  Events relay;
  relay.on_frame = guard_.Wrap([this](Frame frame) {
    const auto heard = events_;
    if (heard->on_frame) heard->on_frame(std::move(frame));
  });
  relay.on_writable = guard_.Wrap([this] {
    const auto heard = events_;
    if (heard->on_writable) heard->on_writable();
  });
  relay.on_closed = guard_.Wrap([this](absl::Status status) {
    closed_ = true;
    verdict_ = std::move(status);
    TellClosed(events_);
  });
  ForwardingCall::Start(std::move(relay));
}

void StartedCall::TellClosed(const std::shared_ptr<const Events>& events) {
  const auto heard = events;
  if (heard->on_closed) heard->on_closed(verdict_);
}

void Refusals::Refuse(std::unique_ptr<Call> call, absl::Status why) {
  const uint64_t number = ++refused_;
  const auto forget = [this, number] {
    executor_.Post(guard_.Wrap([this, number] { calls_.erase(number); }));
  };
  Call::Events events;
  events.on_closed = guard_.Wrap([forget](absl::Status) { forget(); });
  call->Start(std::move(events));
  call->Finish(std::move(why));
  calls_.emplace(number, std::move(call));
  if (calls_.size() > kMaxKept) {
    executor_.Post(guard_.Wrap([this] {
      if (calls_.size() > kMaxKept) calls_.erase(calls_.begin());
    }));
  }
  executor_.RunAfter(kKept, guard_.Wrap([this, number] { calls_.erase(number); }));
}

}  // namespace atolld
