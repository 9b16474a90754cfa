// The peer's end of its Session with the coordinator (CoordinatorLink), the checks of the
// coordinator's messages (the functions Check...), and the headers that a peer sends to a
// coordinator which lacks them (ReadHeaders).
//
// The checks are pure and may be called from any thread. CoordinatorLink is used on the loop
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "membership/history/digest.h"

namespace atolld {

// The checks of the coordinator's messages. A peer believes nothing that contradicts the history it
// holds, that the history key has not signed, or that no honest coordinator says.
//
// The checks fail with INVALID_ARGUMENT if the message makes no sense, with PERMISSION_DENIED if it
// is not signed by the history key, and with FAILED_PRECONDITION if it is about another run,
// another version 0, a fork, or an earlier epoch. Each error message is one sentence for the log
// and the operator.

// The history that this peer holds: its replica's or, if it has no replica, the history of which
// the coordinator told it before.
struct HeldHistory {
  // The spec of the last Welcome; null before the first Welcome.
  const v1::RunSpec* spec = nullptr;
  const v1::Genesis* genesis = nullptr;  // The replica's genesis; null if there is no replica.
  uint64_t version = 0;                  // The replica's version.
  Digest header_digest{};                // The digest of the header of `version`.
  uint64_t epoch = 0;                    // The epoch of the last Welcome.
};

absl::Status CheckWelcome(const HeldHistory& held, const v1::Welcome& welcome);

// Checks the seal of the run that begins with `genesis`. The replica need not have reached the
// sealed version.
absl::Status CheckSealTold(const v1::Genesis& genesis, const v1::Seal& seal);

// Makes the checks of a plan that ExchangePlan::Make does not make. `roster` is the newest roster.
absl::Status CheckPlanTold(const v1::RunSpec& spec, uint64_t epoch, const v1::Roster& roster,
                           const v1::Plan& plan);

// Checks an order. A training must be for a round of the run, with as many samples as its steps
// take; the share of an evaluation must exist; an audit must leave time to answer. Returns OK for
// all other messages.
absl::Status CheckOrderTold(const v1::RunSpec& spec, const v1::CoordinatorMessage& message);

// Reads the headers that a peer sends to a coordinator whose store is behind, from the peer's log
// and snapshots.
//
// Adds the headers `first` to `last` of the replica in `dir` to `headers`: as many consecutive
// headers as fit into a message (membership.proto). If the header of `first` is gone, it begins
// with the oldest header of the log, which reaches back at least to the oldest snapshot; the header
// of a snapshot's own version is read from the snapshot. Adds nothing if it fails. Blocks. It may
// run at the same time as the log's writer.
absl::Status ReadHeaders(Files& files, const std::string& dir, uint64_t first, uint64_t last,
                         v1::Headers* headers);

// The peer's end of its Session with the coordinator.
//
// It dials, says Hello, sends heartbeats, notices a silent coordinator, and redials for ever with a
// growing pause: a peer continues to train while no coordinator answers. If a run has several
// coordinators, it goes from one address to the next until it meets the leader; the other
// coordinators refuse it with UNAVAILABLE. While the dialled coordinator does not answer, or the
// leader has been silent for half of failure_timeout, it also dials the others, and switches to the
// first that answers.
//
// Messages that are sent while there is no Session are dropped; a caller that needs an answer sends
// its message again after the next Welcome. The class has more than twenty members because it keeps
// the state of the Session, of the search for another leader, of refusals and of a rest, which
// together decide its next step. Used on the loop thread.
class CoordinatorLink {
 public:
  struct Events {
    std::function<v1::Hello()> hello;  // Returns the Hello; called at each dial.
    // Returns this peer's progress; called at each heartbeat.
    std::function<v1::PeerProgress()> progress;
    // Handles a message. Returns an error if the message must be refused (see Refuse).
    std::function<absl::Status(const v1::CoordinatorMessage&)> on_message;
    std::function<void()> on_down;  // Called when a Session that had its Welcome has broken.
    // Called when the coordinator rejects this peer for good.
    std::function<void(absl::Status)> on_refused;
    // Returns, for the log, what this peer waits for while no coordinator is connected.
    std::function<std::string()> waits_for;
  };

  // The longest pause between two dials. So a restarted coordinator hears from all living peers
  // within this time.
  static constexpr absl::Duration kLongestPause = absl::Seconds(5);

  // `addresses` are the addresses of all coordinators that may lead the run, at least one.
  CoordinatorLink(Env env, std::vector<std::string> addresses, absl::Duration failure_timeout,
                  Events events);
  ~CoordinatorLink();

  void Start();
  bool up() const { return welcomed_ && !resting_; }
  // The reason why the run waits, as the coordinator last reported it; empty if the run does not
  // wait.
  const std::string& waiting_for() const { return waiting_for_; }
  // The address of the coordinator of this Session, or of the coordinator that is being dialled.
  const std::string& address() const { return addresses_[dialled_]; }
  void Send(const v1::PeerMessage& message);
  // Sends an extra heartbeat, for moments at which the figures should be exact.
  void SendProgress();

  // Ends the Session and begins another, because this peer no longer holds what it has reported in
  // this one.
  void Redial(const std::string& why);

  // Refuses a message of the coordinator. Tells the coordinator why, so that its operator sees the
  // reason, ends the Session, and dials again, with longer pauses each time that this is repeated.
  void Refuse(const absl::Status& why);

  // Says goodbye and stays without a Session until Return. If this process has had no Welcome yet,
  // it first waits for one, so that a run that waits for this peer learns that the peer rests, and
  // why.
  void Rest(const std::string& reason);
  void Return();

  // Says goodbye, then calls `done` when the coordinator has closed the Session or after a short
  // wait.
  void Leave(const std::string& reason, Task done);

 private:
  void Dial();
  void Greet(Call& call);
  absl::Duration Silence() const;
  bool Doubts() const;  // Returns true if the coordinator may no longer lead.
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

  // Used on the loop thread.
  size_t dialled_ = 0;              // The index in addresses_.
  absl::Duration failure_timeout_;  // The configured value, until the Welcome gives the run's.
  std::unique_ptr<Call> call_;
  // A call that asks another coordinator whether it leads, while call_ is silent.
  std::unique_ptr<Call> other_;
  // The index in addresses_ of the coordinator that was last asked by other_.
  size_t looked_at_ = 0;
  absl::Time other_since_;
  bool welcomed_ = false;
  bool leaving_ = false;
  bool resting_ = false;
  bool introduced_ = false;  // True if this process has had a Welcome.
  // The reason of a Rest that waits for the first Welcome.
  std::optional<std::string> rests_behind_;
  Task left_;
  uint64_t greetings_ = 0;  // The Hello.session of the newest Hello.
  int failed_dials_ = 0;
  bool refusing_ = false;  // True after Refuse; further messages of this Session are ignored.
  bool refused_ = false;   // True if the last Session was refused; reset when a Session has lasted.
  std::string refused_why_;
  std::string undialled_why_;  // The last logged reason of a failed dial.
  absl::Time welcomed_at_;
  absl::Time last_heard_;
  std::string waiting_for_;  // The reason why the run waits, as the coordinator last reported it.
  CallbackGuard guard_;
};

}  // namespace atolld
