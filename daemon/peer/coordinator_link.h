// A peer and its coordinator: the Session (CoordinatorLink), what the peer believes of what it is
// told there (Check...), and what it tells of the history where the coordinator lacks it
// (ReadHeaders).
//
// The checks are pure and run on any thread; CoordinatorLink belongs to the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

// What a peer believes of its coordinator: nothing that contradicts the history it holds, that the
// history key has not signed, or that no honest coordinator says.
//
// INVALID_ARGUMENT: absurd; PERMISSION_DENIED: not signed as the history is; FAILED_PRECONDITION:
// another run, another version 0, a fork, or an epoch that has passed. Each message is one sentence
// for the log and the operator.

// What the replica here is; of a peer without one, what it has been told of before.
struct HeldHistory {
  const v1::RunSpec* spec = nullptr;     // of the last Welcome; null: this is the first
  const v1::Genesis* genesis = nullptr;  // of the replica; null: there is none
  uint64_t version = 0;                  // of the replica
  Digest header_digest{};                // of that version
  uint64_t epoch = 0;                    // of the last Welcome
};

absl::Status CheckWelcome(const HeldHistory& held, const v1::Welcome& welcome);

// The seal of the run that `genesis` begins, at a version that may still be to come here.
absl::Status CheckSealTold(const v1::Genesis& genesis, const v1::Seal& seal);

// Beside what ExchangePlan::Make says of it. `roster`: the last one told.
absl::Status CheckPlanTold(const v1::RunSpec& spec, uint64_t epoch, const v1::Roster& roster,
                           const v1::Plan& plan);

// Training for a round of the run on as many samples as its steps take, a share of an evaluation
// that is one of its shares, an audit that has time. Other messages are no such orders: OK.
absl::Status CheckOrderTold(const v1::RunSpec& spec, const v1::CoordinatorMessage& message);

// What a peer tells a coordinator whose store is behind: the headers of its log, and those that its
// snapshots carry.
//
// Adds the headers `first` to `last` of the replica in `dir` to `headers`, as many as fit a message
// (membership.proto) and follow one another. If that of `first` is no longer here, it begins with
// the log's oldest one: the log reaches back to the oldest snapshot at least, which carries its
// own. On an error it adds none. Blocking; may run beside the log's writer.
absl::Status ReadHeaders(Files& files, const std::string& dir, uint64_t first, uint64_t last,
                         v1::Headers* headers);

// The peer's end of its Session with the coordinator.
//
// It dials, says Hello, sends heartbeats, notices a silent coordinator, and redials for ever with a
// growing pause: a peer trains on while the coordinator is away. Where a run has several
// coordinators, it goes from one address to the next until it meets the one that leads; the others
// turn it away with UNAVAILABLE. While one that is dialled does not answer, or the one that leads
// has been silent for half of the failure_timeout, it asks the others too, and goes over to the
// first that has a word for it. What it sends while there is no Session is dropped; whoever needs
// an answer says it again after the next Welcome. Loop thread.
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

  // `addresses`: of the coordinator, or of all that may lead; one at least.
  CoordinatorLink(Env env, std::vector<std::string> addresses, absl::Duration failure_timeout,
                  Events events);
  ~CoordinatorLink();

  void Start();
  bool up() const { return welcomed_ && !resting_; }
  // Why the run waits, as the coordinator has said last; empty: it does not.
  const std::string& waiting_for() const { return waiting_for_; }
  // Of the coordinator that the Session is with, or that is dialled.
  const std::string& address() const { return addresses_[dialled_]; }
  void Send(const v1::PeerMessage& message);
  void SendProgress();  // beside the heartbeats, where the figures should be exact

  // Ends the Session and makes another: what this peer holds is no longer what it has told.
  void Redial(const std::string& why);

  // What the coordinator said is not to be believed: tells it why, so that its operator sees it,
  // ends the Session, and dials again, less and less often while it is so.
  void Refuse(const absl::Status& why);

  // Says goodbye and stays away, without a Session, until Return.
  void Rest(const std::string& reason);
  void Return();

  // Says goodbye, then calls `done` when the coordinator has closed the Session or after a moment.
  void Leave(const std::string& reason, Task done);

 private:
  void Dial();
  void Greet(Call& call);
  absl::Duration Silence() const;
  bool Doubts() const;  // that its coordinator still leads
  void LookForAnother();
  void TakeOther();
  void OnFrame(const Frame& frame);
  void OnClosed(const absl::Status& status);
  void NoteWaiting(const std::string& waiting_for);
  void Beat();
  void ScheduleRedial();
  void SayGoodbye(const std::string& reason);

  const Env env_;
  const std::vector<std::string> addresses_;
  const Events events_;

  // Loop thread.
  size_t dialled_ = 0;              // of addresses_
  absl::Duration failure_timeout_;  // as configured, then as the Welcome says
  std::unique_ptr<Call> call_;
  std::unique_ptr<Call> other_;  // asks whether that coordinator leads, while call_ is silent
  size_t looked_at_ = 0;         // of addresses_: other_'s, or the last that was asked
  absl::Time other_since_;
  bool welcomed_ = false;
  bool leaving_ = false;
  bool resting_ = false;
  Task left_;
  int failed_dials_ = 0;
  bool refusing_ = false;  // nothing more of this Session is heard
  bool refused_ = false;   // the last Session; forgotten when one has lasted
  std::string refused_why_;
  std::string undialled_why_;  // what the log said last of a dial in vain
  absl::Time welcomed_at_;
  absl::Time last_heard_;
  std::string waiting_for_;  // why the run waits, as the coordinator said last
  CallbackGuard guard_;
};

}  // namespace atolld
