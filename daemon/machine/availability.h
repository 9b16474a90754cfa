// A trace says when each party is available, so that an experiment can imitate machines that come
// and go. TraceFollower makes one peer follow its line of a trace.
//
// In Atoll's own format each party has a line with its name and the intervals in which it is
// available, in seconds of the trace. The start of an interval is included, its end is not. A line
// "period SECONDS" before the first party makes the whole trace repeat; without it, a party is not
// available after its last interval.
//
//   # comment
//   period 86400
//   1 0-3600,72000-86400
//   2 always
//   3 never
//
// The other format is FedScale's (Lai et al., "FedScale: benchmarking model and system performance
// of federated learning at scale", ICML 2022), its client_behave_trace written as JSON: {"CLIENT":
// {"active": [...], "inactive": [...], "finish_time": SECONDS, ...}}. The client is available from
// active[i] to inactive[i], and its intervals repeat after its own finish_time. A pair whose end is
// not after its start is ignored, as in FedScale. Clients are in the order of their numbers.
//
// Everything except LoadAvailability is pure. An Availability is immutable and may be used from any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/machine/owner_limits.h"

namespace atolld {

class Availability {
 public:
  // Parses a trace in either format. Fails with INVALID_ARGUMENT if it is malformed; the message
  // names the line or the client and says what is wrong.
  static absl::StatusOr<Availability> Parse(absl::string_view text);

  size_t lines() const { return lines_.size(); }

  // Returns the line of the party with that name. Fails with NOT_FOUND if there is none; the
  // message lists the existing names.
  absl::StatusOr<size_t> LineOf(const std::string& party) const;
  // Returns the line of the party with this number, from 1. It is the line whose name is the
  // number, if there is one, and otherwise the line at that position in the file; after the last
  // line the count continues with the first.
  size_t LineOfNumber(uint64_t party) const;

  bool There(size_t line, double seconds) const;
  // Returns the time until There changes; infinity if it never does.
  double SecondsUntilChange(size_t line, double seconds) const;

 private:
  struct Line {
    // The intervals in ascending order, without overlap.
    std::vector<std::pair<double, double>> times;
    double period = 0;  // The period in seconds; 0 if the line does not repeat.
  };

  absl::Status ParseLine(absl::string_view text, double period);
  absl::Status ParseFedScale(absl::string_view text);
  void Add(const std::string& party, Line line);
  // Returns `seconds`, reduced to the line's period if it repeats.
  static double Within(const Line& line, double seconds);

  std::map<std::string, size_t> names_;
  std::vector<Line> lines_;  // There is at least one line.
};

// The beginning of the reason that TraceFollower gives if the peer will never be available again.
inline constexpr char kAwayForGood[] = "away by its trace for good";

// Reads a trace from a file. The message of an error names the file.
absl::StatusOr<Availability> LoadAvailability(Files& files, const std::string& path);

// Returns the number at the end of a peer's id (12 for "site-12"); 0 if the id does not end in a
// number.
uint64_t NumberOfPeer(absl::string_view peer);

class TraceFollower {
 public:
  // `speed` is the number of seconds of the trace that pass in one second of the wall clock.
  TraceFollower(Availability trace, size_t line, double speed)
      : trace_(std::move(trace)), line_(line), speed_(speed) {}

  // If the peer is not available now, adds a reason to `verdict`, for example "away by its trace
  // until 14:03:20", and forbids training and exchanging. `began` is the time of the trace's second
  // 0.
  void Restrict(absl::Time began, absl::Time wall, const absl::TimeZone& zone,
                MachineVerdict* verdict) const;

 private:
  Availability trace_;
  size_t line_;
  double speed_;
};

}  // namespace atolld
