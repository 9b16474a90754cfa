// Following a run from outside: RunWatcher hears of it from the coordinator, RunHistory is what has
// become known of it, SignalWaiter waits for the next news, Ctrl-C or a child's end.
//
// Make a SignalWaiter before any thread starts: signals are blocked for the maker's thread and for
// all that it starts later.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

// Something that another thread can wake a SignalWaiter with. Any thread.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  void Wake();

 private:
  friend class SignalWaiter;
  int fd_;
};

// Ctrl-C and its kin as something to wait for, so that a command can put things in order before it
// ends.
class SignalWaiter {
 public:
  SignalWaiter();
  ~SignalWaiter();  // signals have their usual effect again
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Returns when a signal or a child's end has come, the waker was woken, or `limit` has passed.
  // True: somebody wants the program to end (SIGINT, SIGTERM, SIGHUP).
  bool Wait(Waker& waker, absl::Duration limit);

 private:
  int fd_;
};

// -----------------------------------------------------------------------------------------------

struct PeerHistory {
  v1::PeerStatus newest;
  uint64_t bytes_sent = 0;   // in exchanges, over all its daemons
  double train_seconds = 0;  // in inner steps, over all its daemons
  v1::Utilisation used;      // summed over the contributions that were seen
};

// What a watcher has learned of a run, put together from the statuses that it was sent.
//
// A coordinator sends only what is new, starts its clock again when it is restarted, and a peer's
// counters start again with its daemon; here rounds and evaluations are kept by version on one
// timeline, and counters go on. Pure, one thread.
class RunHistory {
 public:
  // `now_seconds`: of any monotonic clock, the same one at each call.
  void Take(const v1::RunStatus& status, double now_seconds);

  // The newest status, without the lists that are kept below. Empty before the first.
  const v1::RunStatus& newest() const { return newest_; }
  bool sealed() const { return newest_.has_seal(); }

  // By version; elapsed_seconds counts from the first Train of the run, whatever coordinator sent
  // it.
  const std::map<uint64_t, v1::RoundRecord>& rounds() const { return rounds_; }
  const std::map<uint64_t, v1::EvaluationRecord>& evaluations() const { return evaluations_; }

  // By peer id; those that are no longer listed stay.
  const std::map<std::string, PeerHistory>& peers() const { return peers_; }

  // What its losses are in: "nats a byte", "nats a token"; empty: what the run's own model gives.
  std::string loss_unit() const;

  // From the first Train to the last commit; 0 before it.
  double wall_seconds() const;

  // At the pace of the last rounds; negative while that is unknown.
  double seconds_left() const;

  // Since the first Train, by the newest status and `now_seconds`.
  double elapsed_seconds(double now_seconds) const;

  // Over all peers: bytes sent in exchanges / rounds that they contributed to; 0 before the first.
  double bytes_sent_per_peer_per_round() const;

  // Mean over the peers of the share of the time in which they trained, 0-1.
  double compute_utilization() const;

  // The smallest share of the time in which any one peer trained, over its contributions, 0-1.
  // Nothing where none has told it: the first contribution of a peer has no time before it.
  std::optional<double> least_busy() const;

 private:
  // What an epoch's elapsed_seconds lack to count from the run's first Train.
  double ShiftOf(const v1::RunStatus& status, double now_seconds);

  v1::RunStatus newest_;
  std::map<uint64_t, v1::RoundRecord> rounds_;
  std::map<uint64_t, v1::EvaluationRecord> evaluations_;
  std::map<std::string, PeerHistory> peers_;
  bool has_origin_ = false;
  double origin_seconds_ = 0;          // of the first Train, on the caller's clock
  std::map<uint64_t, double> shifts_;  // by epoch
};

// -----------------------------------------------------------------------------------------------

// What is to be said of a coordinator that does not answer, and how long it is waited for.
//
// One that is started again, on another machine if need be, is back within kLongestSeconds; one
// that is away for longer has perhaps ended with its run, unheard. Times in seconds are of any
// monotonic clock, since the wall clock, which is only shown, may jump. Pure; one thread.
class AbsenceRule {
 public:
  static constexpr double kLongestSeconds = 120;

  // It answers now. `address`: its own.
  AbsenceRule(std::string address, double now_seconds, absl::Time wall);

  // Whether it is away now. A line, where that has changed; else nothing.
  std::string Take(bool away, double now_seconds, absl::Time wall);

  bool away() const { return away_; }
  double last_answer_seconds() const { return last_seconds_; }

  // UNAVAILABLE: it has been away for too long.
  absl::Status GiveUp(double now_seconds) const;

 private:
  const std::string address_;
  double last_seconds_;  // when it answered last
  std::string last_wall_;
  bool away_ = false;
};

// -----------------------------------------------------------------------------------------------

// Follows a coordinator's run on a thread of its own, through its restarts. Statuses wait until
// they are taken; none is lost while the coordinator lives. Take from one thread.
class RunWatcher {
 public:
  // Wakes `waker` when something can be taken. Starts at once.
  RunWatcher(CoordinatorAccess access, Waker& waker);
  ~RunWatcher();  // returns within a moment
  RunWatcher(const RunWatcher&) = delete;
  RunWatcher& operator=(const RunWatcher&) = delete;

  // What has come since the last call, in order.
  std::vector<v1::RunStatus> Take();

  // The coordinator does not answer; false before the first time it does not.
  bool away();

 private:
  void Watch();

  const CoordinatorAccess access_;
  Waker& waker_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;                   // guarded by mutex_
  AdminClient* asking_ = nullptr;       // guarded by mutex_: the thread's, while it watches
  std::vector<v1::RunStatus> waiting_;  // guarded by mutex_
  bool away_ = false;                   // guarded by mutex_
  std::thread thread_;                  // last: it uses all the others
};

}  // namespace atolld
