// Follows a run from outside: RunWatcher receives the run's statuses from the coordinator and wakes
// who waits for them, and RunHistory combines them into one history.
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
#include "daemon/env/signal_waiter.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {

struct PeerHistory {
  v1::PeerStatus newest;
  uint64_t bytes_sent = 0;   // the bytes sent in exchanges over the whole run
  double train_seconds = 0;  // the time spent on inner steps over the whole run
  v1::Utilisation used;      // the sum over the contributions that the statuses reported
};

// The history of a run, combined from the statuses that a watcher received.
//
// A coordinator sends only what is new, and its clock starts again when it is restarted. A peer's
// counters start again when its folder is emptied. This class keeps rounds and evaluations by
// version on one timeline, and makes counters continue. Pure. Used by one thread.
class RunHistory {
 public:
  // Adds a status. `now_seconds` is the time of a monotonic clock, which must be the same clock at
  // each call.
  void Take(const v1::RunStatus& status, double now_seconds);

  // Returns the newest status without the lists that the next functions return. Empty before the
  // first Take.
  const v1::RunStatus& newest() const { return newest_; }
  bool sealed() const { return newest_.has_seal(); }

  // Returns the rounds by version. Their elapsed_seconds count from the run's first Train message,
  // even if the coordinator was restarted since.
  const std::map<uint64_t, v1::RoundRecord>& rounds() const { return rounds_; }
  const std::map<uint64_t, v1::EvaluationRecord>& evaluations() const { return evaluations_; }

  // Returns the peers by id, including peers that are no longer listed.
  const std::map<std::string, PeerHistory>& peers() const { return peers_; }

  // Returns the unit of the losses: "nats a byte" or "nats a token". Empty if the unit is defined
  // by a user's own model.
  std::string loss_unit() const;

  // Returns the time from the first Train message to the last commit, or nullopt if it is not
  // known: before the first commit, and if a coordinator knows only a commit's header.
  std::optional<double> wall_seconds() const;

  // Returns the time until the end of the run at the pace of the last rounds; negative while the
  // pace is unknown.
  double seconds_left() const;

  // Returns the time from the first Train message to `now_seconds`, according to the newest status.
  double elapsed_seconds(double now_seconds) const;

  // Returns the bytes sent in exchanges divided by the number of contributions, over all peers that
  // report both. Returns nullopt before the first contribution.
  std::optional<double> bytes_sent_per_peer_per_round() const;

  // Returns the mean over the peers of the share of time that each spent on training, 0-1. Returns
  // nullopt if no peer has reported its times.
  std::optional<double> compute_utilization() const;

  // Returns the smallest of these shares of a single peer, over all its contributions, 0-1. Returns
  // nullopt if no peer has reported its times. The first contribution of a peer does not count,
  // since no time is measured before it.
  std::optional<double> least_busy() const;

 private:
  // Returns the seconds to add to the elapsed_seconds of the status's epoch so that they count from
  // the run's first Train message.
  double ShiftOf(const v1::RunStatus& status, double now_seconds);

  v1::RunStatus newest_;
  std::map<uint64_t, v1::RoundRecord> rounds_;
  std::map<uint64_t, v1::EvaluationRecord> evaluations_;
  std::map<std::string, PeerHistory> peers_;
  bool has_origin_ = false;
  double origin_seconds_ = 0;          // the time of the first Train message, on the caller's clock
  std::map<uint64_t, double> shifts_;  // the results of ShiftOf, by epoch
};

// -----------------------------------------------------------------------------------------------

// Makes the messages about a coordinator that does not answer, and limits how long a program waits
// for it.
//
// A coordinator that is started again, even on another machine, answers within kLongestSeconds. If
// it is away for longer, it may have ended with its run without the watcher's notice. Times in
// seconds are taken from a monotonic clock; the wall clock may jump and is only used in messages.
// Pure. Used by one thread.
class AbsenceRule {
 public:
  static constexpr double kLongestSeconds = 120;

  // Construct it while the coordinator at `address` answers.
  AbsenceRule(std::string address, double now_seconds, absl::Time wall);

  // Call this regularly with whether the coordinator is away. Returns a message if this has
  // changed, and an empty text otherwise.
  std::string Take(bool away, double now_seconds, absl::Time wall);

  bool away() const { return away_; }
  double last_answer_seconds() const { return last_seconds_; }

  // Fails with UNAVAILABLE if the coordinator has been away for more than kLongestSeconds.
  absl::Status GiveUp(double now_seconds) const;

 private:
  const std::string address_;
  double last_seconds_;  // the time of the last answer
  std::string last_wall_;
  bool away_ = false;
};

// -----------------------------------------------------------------------------------------------

// Follows the run of a coordinator on a thread of its own, and continues when the coordinator is
// restarted. Statuses are queued until they are taken; none is lost while the coordinator runs.
// Used by one thread.
class RunWatcher {
 public:
  // Starts immediately, and wakes `waker` whenever there is a new status or away() changes.
  RunWatcher(CoordinatorAccess access, Waker& waker);
  ~RunWatcher();  // ends the thread; this takes only a moment
  RunWatcher(const RunWatcher&) = delete;
  RunWatcher& operator=(const RunWatcher&) = delete;

  // Returns the statuses since the last call, in order.
  std::vector<v1::RunStatus> Take();

  // Returns true if the coordinator does not answer at present; false until it first fails to
  // answer.
  bool away();

 private:
  void Watch();

  const CoordinatorAccess access_;
  Waker& waker_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  // Guarded by mutex_. The client that the thread uses while it watches.
  AdminClient* asking_ = nullptr;
  std::vector<v1::RunStatus> waiting_;  // guarded by mutex_
  bool away_ = false;                   // guarded by mutex_
  std::thread thread_;                  // the last member, because it uses all others
};

}  // namespace atolld
