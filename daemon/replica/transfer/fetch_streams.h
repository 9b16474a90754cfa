// FetchStreams: the calls of one fetch to several donors at once, and who is left for whom.
//
// It dials, asks each donor for items as the FetchSchedule says, notices one that stalls, and turns
// to the next. Laws: a stream is not read while its last frame is being judged; a donor without
// progress for failure_timeout is left, but never because this process itself was stopped for a
// while; nothing is called after destruction. Loop thread.
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
  enum class Judgement { kMore, kWhole };  // the answer goes on; it has come to its end
  // Called once, at once or later. An error leaves the donor: NOT_FOUND: it lacks this;
  // UNAVAILABLE: try another; else it lied.
  using Judge = std::function<void(absl::StatusOr<Judgement>)>;

  struct Hooks {
    // A stream's first request, answered by as many frames as its judge says. Not set, or nothing:
    // none is needed.
    std::function<std::optional<Frame>()> greeting;
    std::function<Frame(uint64_t item)> request;
    // One frame of a stream: of the answer to the greeting (no item) or of an item.
    std::function<void(int stream, std::optional<uint64_t> item, Frame frame, Judge judge)>
        on_frame;
    std::function<void(int stream)> on_left;  // may be null
    // Nobody is asked and nobody can be (see DonorList::Verdict). The owner may destroy the
    // streams.
    std::function<void(absl::Status)> on_exhausted;
  };

  struct Settings {
    std::string what;  // for the log: "entries", "snapshot"
    std::string method;
    std::vector<std::string> donors;  // best first
    absl::Duration failure_timeout;
    size_t streams = 1;  // at once
    // Where it says that it leaves a donor, over many fetches; null: in the log, every time.
    std::shared_ptr<RepeatedLines> lines{};
  };

  FetchStreams(Env env, Settings settings, Hooks hooks);
  ~FetchStreams();  // cancels all calls

  // What is to be fetched; before it only greetings go out. Streams stay. nullptr: nothing now.
  void SetSchedule(FetchSchedule* schedule);
  void SetStreams(size_t streams);
  void SetDonors(const std::vector<std::string>& donors);

  // Dials and asks for what may be asked now. After the schedule has changed. Nothing is called
  // from inside.
  void Pump();

  uint64_t received_bytes() const;  // all frames so far
  size_t donors_used() const;       // that gave at least one item

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld
