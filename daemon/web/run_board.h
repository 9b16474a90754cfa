// RunBoard: the newest state of the run, for readers over HTTP.
//
// The coordinator's loop stores statuses in it, and threads of the HTTP server read them. The loop
// does not make any JSON; readers do. A reader of events first gets the whole run, and then only
// the news. The id of each event says which part of the run its reader has, so that a browser can
// continue after its connection has broken. After a restart of the coordinator a reader gets the
// whole run again. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/web/http_server.h"

namespace atolld {

class RunBoard {
 public:
  // `life` is a number that no earlier board of this run has used. `now` is a monotonic clock that
  // may be called from any thread.
  RunBoard(uint64_t life, std::function<absl::Time()> now);

  // Stores a status in the form of WatchRun, which has only the new rounds, evaluations and events,
  // and everything else in full.
  void Take(const v1::RunStatus& news);

  // Returns the newest status, with the newest round and the newest evaluation.
  v1::RunStatus Newest() const;

  // Returns the same JSON as `atoll run show --json`, with the last rounds and all events that are
  // kept. Before the first status, returns an object without keys.
  std::string RunJson() const;

  // Returns a JSON array of at most kRoundsAPage rounds from version `from` on, in the form of
  // RunJson.
  static constexpr size_t kRoundsAPage = 1000;
  std::string RoundsJson(uint64_t from) const;

  // Returns a stream of events for a reader. `last_id` is the id of the last event that the reader
  // has. If it is empty or comes from a board with another `life`, the reader gets the whole run.
  // The board must outlive the returned object.
  std::unique_ptr<HttpEvents> Follow(const std::string& last_id) const;

 private:
  friend class BoardEvents;

  // The part of the run that a reader already has. `round` is the newest version whose round it
  // has.
  struct Place {
    uint64_t round = 0;
    uint64_t evaluation = 0;  // 1 + the version of the newest evaluation.
    uint64_t event = 0;       // The number of events.
    uint64_t status = 0;      // The number of the status; it is not part of an id.
  };
  struct News {
    std::string text;  // The text of one event; empty if there is no news.
    size_t bytes = 0;
    absl::Time taken;  // The time at which the status was stored.
  };

  std::string IdOf(const Place& place) const;
  std::optional<Place> PlaceOf(absl::string_view id) const;
  // Waits at most `patience` for a status that the reader does not have, and updates `place`.
  News NewsSince(Place* place, absl::Duration patience) const;
  void AddRounds(uint64_t after, v1::RunStatus* status) const;  // The caller holds mutex_.
  void AddRest(const Place& after, v1::RunStatus* status) const;

  const uint64_t life_;
  const std::function<absl::Time()> now_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Guarded by mutex_.
  v1::RunStatus newest_;  // The newest status, without rounds, evaluations and events.
  uint64_t statuses_ = 0;
  absl::Time taken_;
  std::map<uint64_t, v1::RoundRecord> rounds_;
  std::map<uint64_t, v1::EvaluationRecord> evaluations_;
  std::deque<std::string> events_;  // The newest events.
  uint64_t first_event_ = 0;        // The number of events_.front().
};

}  // namespace atolld
