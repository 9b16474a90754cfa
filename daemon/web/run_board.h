// RunBoard: what is known of the run now, for whoever asks over HTTP.
//
// The coordinator's loop puts statuses on it; threads of the HTTP server read from it. The loop
// never waits for a reader: a status is kept as it came, and its JSON is made by the first reader
// that wants it. A reader of events first gets the whole run and then what is new to it; the id of
// each event says what its reader has, so that a browser goes on after its line broke. After a
// restart of the coordinator it gets everything again. Any thread.
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
  // `life`: a number that no earlier board of this run had. `now`: a monotonic clock, any thread.
  RunBoard(uint64_t life, std::function<absl::Time()> now);

  // A status as WatchRun sends them: rounds, evaluations and events that are new, all else as it
  // is.
  void Take(const v1::RunStatus& news);

  // The newest status, with the newest round and the newest evaluation.
  v1::RunStatus Newest() const;

  // As `atoll run show --json`, with the last rounds and all events that are kept; an object
  // without keys before the first status.
  std::string RunJson() const;

  // An array of rounds as in RunJson, from this version on, kRoundsAPage of them.
  static constexpr size_t kRoundsAPage = 1000;
  std::string RoundsJson(uint64_t from) const;

  // `last_id`: of the last event that the reader has; empty or of another life: it has none. The
  // board outlives what it returns.
  std::unique_ptr<HttpEvents> Follow(const std::string& last_id) const;

 private:
  friend class BoardEvents;

  // What a reader has: the newest version of which it has the round, and so on.
  struct Place {
    uint64_t round = 0;
    uint64_t evaluation = 0;  // 1 + its version
    uint64_t event = 0;       // how many
    uint64_t status = 0;      // the number of the status; not part of an id
  };
  struct News {
    std::string text;  // one event; empty: nothing is new
    size_t bytes = 0;
    absl::Time taken;  // when the status came
  };

  std::string IdOf(const Place& place) const;
  std::optional<Place> PlaceOf(absl::string_view id) const;
  // Waits for a status after the reader's, at most `patience`, and moves `place` on.
  News NewsSince(Place* place, absl::Duration patience) const;
  void AddRounds(uint64_t after, v1::RunStatus* status) const;  // mutex_ is held
  void AddRest(const Place& after, v1::RunStatus* status) const;

  const uint64_t life_;
  const std::function<absl::Time()> now_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Guarded by mutex_.
  v1::RunStatus newest_;  // without rounds, evaluations and events
  uint64_t statuses_ = 0;
  absl::Time taken_;
  std::map<uint64_t, v1::RoundRecord> rounds_;
  std::map<uint64_t, v1::EvaluationRecord> evaluations_;
  std::deque<std::string> events_;  // the newest
  uint64_t first_event_ = 0;        // number of events_.front()
};

}  // namespace atolld
