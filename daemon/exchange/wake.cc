#include "daemon/exchange/wake.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "atoll/v1/exchange.pb.h"

namespace atolld {
namespace {

constexpr size_t kMostTaken = 64;

Frame Padding(size_t bytes) {
  return Pack(v1::Waking(), SharedBytes(std::string(std::min(bytes, kMostWakeBytes), '\0')));
}

}  // namespace

void WakeCalls::Wake(const std::string& address, uint32_t lanes, size_t bytes, Heard heard) {
  struct Lanes {
    uint32_t open;
    absl::Status worst;
  };
  const auto state = std::make_shared<Lanes>(Lanes{lanes, absl::OkStatus()});
  const Heard one = [state, heard = std::move(heard)](const absl::Status& status) {
    if (!status.ok()) state->worst = status;
    if (--state->open == 0 && heard) heard(state->worst);
  };
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    Call& call = Hold(env_.transport.Dial(address, kWakeMethod, patience_), /*answers=*/false, one);
    call.Write(Padding(bytes));
    call.Read();
  }
}

void WakeCalls::Accept(std::unique_ptr<Call> call) {
  if (taken_ >= kMostTaken) {
    return refusals_.Refuse(std::move(call), absl::ResourceExhaustedError("too many at once"));
  }
  ++taken_;
  Hold(std::move(call), /*answers=*/true, nullptr).Read();
}

Call& WakeCalls::Hold(std::unique_ptr<Call> call, bool answers, Heard heard) {
  const uint64_t number = ++made_;
  Call& held = *(calls_[number] = std::move(call));
  // Only the first result counts: the bytes came back, the call broke, or the time is up.
  const auto tell = [told = std::make_shared<bool>(false),
                     heard = std::move(heard)](const absl::Status& status) {
    if (!std::exchange(*told, true) && heard) heard(status);
  };
  const auto let_go = [this, number, answers] {
    if (calls_.erase(number) > 0 && answers) --taken_;
  };
  Call::Events events;
  events.on_frame = guard_.Wrap([this, number, answers, tell](const Frame& frame) {
    tell(absl::OkStatus());
    Call& awake = *calls_.at(number);
    if (answers) awake.Write(Padding(frame.payload.size()));
    awake.Finish(absl::OkStatus());
  });
  // The call is destroyed later, because it must not be destroyed inside its own callback.
  events.on_closed = guard_.Wrap([this, let_go, tell](const absl::Status& status) {
    tell(status.ok() ? absl::UnavailableError("the call ended without an answer") : status);
    env_.executor.Post(guard_.Wrap(let_go));
  });
  held.Start(std::move(events));
  env_.executor.RunAfter(patience_, guard_.Wrap([let_go, tell, patience = patience_] {
    tell(
        absl::DeadlineExceededError(absl::StrCat("no answer in ", absl::FormatDuration(patience))));
    let_go();
  }));
  return held;
}

}  // namespace atolld
