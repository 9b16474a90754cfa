// CoordinatorLink: the peer's end of its Session with the coordinator.
//
// It dials, says Hello, sends heartbeats, notices a silent coordinator, and redials for ever with a
// growing pause: a peer trains on while the coordinator is away. What it sends while there is no
// Session is dropped; whoever needs an answer says it again after the next Welcome. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"

namespace atolld {

class CoordinatorLink {
 public:
  struct Events {
    std::function<v1::Hello()> hello;            // asked for at each dial
    std::function<v1::PeerProgress()> progress;  // asked for at each heartbeat
    // An error: what it says is refused (see Refuse).
    std::function<absl::Status(const v1::CoordinatorMessage&)> on_message;
    std::function<void()> on_down;                 // a Session that had its Welcome broke
    std::function<void(absl::Status)> on_refused;  // the coordinator will not have this peer: final
    // What this peer waits for while there is no coordinator, in words.
    std::function<std::string()> waits_for;
  };

  // Between two dials, at most: a coordinator that is back has heard of all that live so much
  // later.
  static constexpr absl::Duration kLongestPause = absl::Seconds(5);

  CoordinatorLink(Env env, std::string address, absl::Duration failure_timeout, Events events);
  ~CoordinatorLink();

  void Start();
  bool up() const { return welcomed_; }
  void Send(const v1::PeerMessage& message);
  void SendProgress();  // beside the heartbeats, where the figures should be exact

  // Ends the Session and makes another: what this peer holds is no longer what it has told.
  void Redial(const std::string& why);

  // What the coordinator said is not to be believed: tells it why, so that its operator sees it,
  // ends the Session, and dials again, less and less often while it is so.
  void Refuse(const absl::Status& why);

  // Says goodbye, then calls `done` when the coordinator has closed the Session or after a moment.
  void Leave(const std::string& reason, Task done);

 private:
  void Dial();
  void OnFrame(const Frame& frame);
  void OnClosed(const absl::Status& status);
  void NoteWaiting(const std::string& waiting_for);
  void Beat();
  void ScheduleRedial();

  const Env env_;
  const std::string address_;
  const Events events_;

  // Loop thread.
  absl::Duration failure_timeout_;  // as configured, then as the Welcome says
  std::unique_ptr<Call> call_;
  bool welcomed_ = false;
  bool leaving_ = false;
  Task left_;
  int failed_dials_ = 0;
  bool refusing_ = false;  // nothing more of this Session is heard
  bool refused_ = false;   // the last Session; forgotten when one has lasted
  std::string refused_why_;
  absl::Time welcomed_at_;
  absl::Time last_heard_;
  std::string waiting_for_;  // why the run waits, as the coordinator said last
  CallbackGuard guard_;
};

}  // namespace atolld
