#include "daemon/peer/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// A coordinator on its way up is met soon; one that is away for a day is neither hammered nor
// forgotten by the log.
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr int kDialsBetweenLines = 12;  // a minute, at the longest pause

// A Session that has lasted so long, longer than any pause, is sound, whatever the one before was.
constexpr absl::Duration kSound = absl::Seconds(10);

// Between two beats, however close the end of the coordinator's time is.
constexpr absl::Duration kShortestBeat = absl::Milliseconds(10);

bool IsFinal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

}  // namespace

CoordinatorLink::CoordinatorLink(Env env, std::string address, absl::Duration failure_timeout,
                                 Events events)
    : env_(env),
      address_(std::move(address)),
      events_(std::move(events)),
      failure_timeout_(failure_timeout) {}

CoordinatorLink::~CoordinatorLink() = default;

void CoordinatorLink::Start() {
  Dial();
  Beat();
}

void CoordinatorLink::Dial() {
  if (leaving_) return;
  call_ = env_.transport.Dial(address_, "/atolld.v1.Membership/Session", absl::InfiniteDuration());
  Call::Events events;
  events.on_frame = guard_.Wrap([this](Frame frame) { OnFrame(frame); });
  events.on_closed = guard_.Wrap([this](absl::Status status) { OnClosed(status); });
  call_->Start(std::move(events));
  v1::PeerMessage message;
  *message.mutable_hello() = events_.hello();
  call_->Write(Pack(message));
  call_->Read();
  last_heard_ = env_.executor.Now();
}

void CoordinatorLink::OnFrame(const Frame& frame) {
  if (refusing_) return call_->Read();
  last_heard_ = env_.executor.Now();
  v1::CoordinatorMessage message;
  const absl::Status parsed = Unpack(frame, &message);
  if (!parsed.ok()) {
    env_.log.Error(absl::StrCat("coordinator ", address_, ": ", parsed.message()));
    OnClosed(absl::UnavailableError("the coordinator sent what is no message"));
    return;
  }
  welcomed_ = welcomed_ || message.has_welcome();
  if (message.has_heartbeat()) {
    call_->Read();
    return NoteWaiting(message.heartbeat().waiting_for());
  }
  const absl::Status taken = events_.on_message(message);
  if (!taken.ok()) return Refuse(taken);
  if (message.has_welcome()) {
    welcomed_at_ = last_heard_;
    if (!refused_) failed_dials_ = 0;
    if (message.welcome().failure_timeout_milliseconds() > 0) {
      failure_timeout_ = absl::Milliseconds(
          static_cast<int64_t>(message.welcome().failure_timeout_milliseconds()));
    }
  }
  if (call_ != nullptr) call_->Read();
}

// Once at each change: whoever looks at this machine sees why it is idle.
void CoordinatorLink::NoteWaiting(const std::string& waiting_for) {
  if (waiting_for == waiting_for_) return;
  waiting_for_ = waiting_for;
  env_.log.Info(waiting_for.empty() ? "the run goes on"
                                    : absl::StrCat("the run waits: ", waiting_for));
}

void CoordinatorLink::OnClosed(const absl::Status& status) {
  const bool was_up = std::exchange(welcomed_, false);
  const bool refused = std::exchange(refusing_, false);
  call_.reset();
  if (leaving_) {
    if (left_) std::exchange(left_, nullptr)();
    return;
  }
  if (IsFinal(status) && !refused) {
    events_.on_refused(status);
    return;
  }
  if (refused) {
    // Refuse has said why.
  } else if (was_up) {
    env_.log.Warning(absl::StrCat("lost the coordinator at ", address_, " (", status.message(),
                                  "); dialling again. ", events_.waits_for()));
  } else if (failed_dials_ % kDialsBetweenLines == 0) {
    env_.log.Info(absl::StrCat("no coordinator at ", address_, " yet; dialling again (",
                               status.message(), "). ", events_.waits_for()));
  }
  ScheduleRedial();
  if (was_up) events_.on_down();
}

void CoordinatorLink::ScheduleRedial() {
  const int doublings = std::min(failed_dials_++, 10);
  const absl::Duration pause = std::min(kFirstPause * (int64_t{1} << doublings), kLongestPause);
  env_.executor.RunAfter(pause, guard_.Wrap([this] {
    if (call_ == nullptr) Dial();
  }));
}

void CoordinatorLink::Beat() {
  if (leaving_) return;
  if (call_ != nullptr && env_.executor.Now() - last_heard_ >= failure_timeout_) {
    OnClosed(absl::DeadlineExceededError(
        absl::StrCat("nothing heard for ", absl::FormatDuration(failure_timeout_))));
  }
  SendProgress();
  if (welcomed_ && refused_ && !refusing_ && env_.executor.Now() >= welcomed_at_ + kSound) {
    refused_ = false;
    failed_dials_ = 0;
  }
  // Four beats fit the time-out, so that one lost or late beat is no death. A second at most keeps
  // the view live. A coordinator that has been silent for long is found out when its time is over,
  // not up to a beat later.
  absl::Duration next = std::min(failure_timeout_ / 4, absl::Seconds(1));
  if (call_ != nullptr) {
    const absl::Duration left = last_heard_ + failure_timeout_ - env_.executor.Now();
    next = std::min(next, std::max(left, kShortestBeat));
  }
  env_.executor.RunAfter(next, guard_.Wrap([this] { Beat(); }));
}

void CoordinatorLink::SendProgress() {
  v1::PeerMessage message;
  *message.mutable_heartbeat()->mutable_progress() = events_.progress();
  Send(message);
}

void CoordinatorLink::Send(const v1::PeerMessage& message) {
  // After its farewell nothing more may be written: the call is half-closed.
  if (call_ != nullptr && welcomed_ && !leaving_ && !refusing_) call_->Write(Pack(message));
}

void CoordinatorLink::Redial(const std::string& why) {
  if (call_ != nullptr && !leaving_ && !refusing_) OnClosed(absl::UnavailableError(why));
}

void CoordinatorLink::Refuse(const absl::Status& why) {
  if (call_ == nullptr || leaving_ || refusing_) return;
  refused_ = true;
  const std::string reason(why.message());
  if (reason != refused_why_ || failed_dials_ % kDialsBetweenLines == 0) {
    env_.log.Error(absl::StrCat("the coordinator at ", address_, " is not believed: ", reason,
                                ". Nothing here has changed; dialling again"));
  }
  refused_why_ = reason;
  v1::PeerMessage message;
  message.mutable_leaving()->set_reason(
      absl::StrCat("it does not believe the coordinator: ", reason));
  Send(message);
  refusing_ = true;
  call_->Finish(absl::OkStatus());
  // The coordinator closes what has said goodbye; one that does not is left alone.
  env_.executor.RunAfter(std::min(failure_timeout_, absl::Seconds(1)),
                         guard_.Wrap([this, call = call_.get()] {
                           if (refusing_ && call_.get() == call) OnClosed(absl::OkStatus());
                         }));
}

void CoordinatorLink::Leave(const std::string& reason, Task done) {
  if (call_ == nullptr || !welcomed_ || refusing_) {
    leaving_ = true;
    env_.executor.Post(std::move(done));
    return;
  }
  SendProgress();  // the last word on what it has sent and done
  v1::PeerMessage message;
  message.mutable_leaving()->set_reason(reason);
  Send(message);
  leaving_ = true;
  left_ = std::move(done);
  call_->Finish(absl::OkStatus());
  env_.executor.RunAfter(std::min(failure_timeout_, absl::Seconds(1)), guard_.Wrap([this] {
    if (left_) std::exchange(left_, nullptr)();
  }));
}

}  // namespace atolld
