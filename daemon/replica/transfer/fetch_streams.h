// FetchStreams: the calls of one fetch, which go to several donors at once. It also replaces donors
// that fail.
//
// It dials donors, asks each donor for the items that the FetchSchedule chooses, notices a donor
// that stalls, and turns to another donor. Laws: a stream is not read while its last frame is being
// judged; a donor without progress for failure_timeout is left, but not if this process was stopped
// in that time; no hook is called after destruction. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/env/env.h"
#include "daemon/env/repeated_lines.h"
#include "daemon/replica/transfer/fetch_schedule.h"

namespace atolld {

inline constexpr size_t kDonorsAtOnce = 4;

class FetchStreams {
 public:
  // kMore means that the answer continues, kWhole that it is complete.
  enum class Judgement { kMore, kWhole };
  // The owner calls it once, at once or later, with the judgement of a frame. After an error the
  // donor is left: NOT_FOUND means that the donor lacks the item, UNAVAILABLE that another donor
  // should be tried, and any other error that the donor lied.
  using Judge = std::function<void(absl::StatusOr<Judgement>)>;

  struct Hooks {
    // Returns a stream's first request. The frames that follow answer it, until one is judged
    // kWhole. If it is unset or returns nullopt, no such request is made.
    std::function<std::optional<Frame>()> greeting;
    std::function<Frame(uint64_t item)> request;
    // Takes one frame of a stream. `item` is nullopt in an answer to the greeting.
    std::function<void(int stream, std::optional<uint64_t> item, Frame frame, Judge judge)>
        on_frame;
    std::function<void(int stream)> on_left;  // Called when a stream has ended. May be null.
    // Called with DonorList::Verdict when no donor is being asked and no further donor can be
    // asked. The owner may destroy this object in this call.
    std::function<void(absl::Status)> on_exhausted;
  };

  struct Settings {
    std::string what;  // The name of the data in the log, such as "entries" or "snapshot".
    std::string method;
    std::vector<std::string> donors;  // The addresses of the donors, best first.
    absl::Duration failure_timeout;
    size_t streams = 1;  // The largest number of streams at the same time.
    // Limits how often, over many fetches, it is logged that a donor was left. If null, it is
    // logged every time.
    std::shared_ptr<RepeatedLines> lines{};
    std::function<void(const std::string& donor)> on_failed{};  // See FetchSource.
  };

  FetchStreams(Env env, Settings settings, Hooks hooks);
  ~FetchStreams();  // Cancels all calls.

  // Sets the schedule of the items to fetch; nullptr means that there are none now. Before the
  // first call only greetings are sent. Streams are kept.
  void SetSchedule(FetchSchedule* schedule);
  void SetStreams(size_t streams);
  void SetDonors(const std::vector<std::string>& donors);

  // Dials donors and requests the items that may be requested now. Must be called after the
  // schedule has changed. No hook is called from inside this call.
  void Pump();

  uint64_t received_bytes() const;  // The bytes of all frames received so far.
  size_t donors_used() const;       // The number of donors that gave at least one item.

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
