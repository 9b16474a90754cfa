// When parties are there, as a trace has it: an experiment's imitation of machines that come and
// go. TraceFollower holds one peer to its line of a trace.
//
// Our form is a line a party: its name, and from when to when it is there, in seconds of the trace
// ("from" counts, "to" does not). A line "period SECONDS", before the first party, makes all of it
// begin again; without one, nobody is there after their last time.
//
//   # comment
//   period 86400
//   1 0-3600,72000-86400
//   2 always
//   3 never
//
// The other form is FedScale's (Lai et al., "FedScale: benchmarking model and system performance of
// federated learning at scale", ICML 2022), its client_behave_trace written as JSON: {"CLIENT":
// {"active": [...], "inactive": [...], "finish_time": SECONDS, ...}}. The client is there from
// active[i] to inactive[i], and each begins again after its own finish_time; a pair that does not
// end after it began counts for nothing, as there. Clients stand in the order of their numbers.
//
// Pure but for LoadAvailability; a value that nobody changes, any thread.
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
  // Either form. INVALID_ARGUMENT: the line, or the client, and what is wrong with it.
  static absl::StatusOr<Availability> Parse(absl::string_view text);

  size_t lines() const { return lines_.size(); }

  // Of the party with that name. NOT_FOUND names those that are there.
  absl::StatusOr<size_t> LineOf(const std::string& party) const;
  // Of party 1, 2 ...: the one of that name, if there is one, else that line of the file, where
  // the first follows the last.
  size_t LineOfNumber(uint64_t party) const;

  bool There(size_t line, double seconds) const;
  // Until There changes; infinity: it never does.
  double SecondsUntilChange(size_t line, double seconds) const;

 private:
  struct Line {
    std::vector<std::pair<double, double>> times;  // ascending, apart
    double period = 0;                             // 0: it does not begin again
  };

  absl::Status ParseLine(absl::string_view text, double period);
  absl::Status ParseFedScale(absl::string_view text);
  void Add(const std::string& party, Line line);
  // Where `seconds` lies in the line's times.
  static double Within(const Line& line, double seconds);

  std::map<std::string, size_t> names_;
  std::vector<Line> lines_;  // one at least
};

// Reads a trace. The error names the file.
absl::StatusOr<Availability> LoadAvailability(Files& files, const std::string& path);

// The number at the end of a peer's id ("site-12": 12); 0: there is none.
uint64_t NumberOfPeer(absl::string_view peer);

class TraceFollower {
 public:
  // `speed`: seconds of the trace in one of the wall clock's.
  TraceFollower(Availability trace, size_t line, double speed)
      : trace_(std::move(trace)), line_(line), speed_(speed) {}

  // Adds to `verdict` that the peer is away, where it is: "away by its trace until 14:03:20". It
  // neither trains nor exchanges then. `began`: when the trace's second 0 was.
  void Restrict(absl::Time began, absl::Time wall, const absl::TimeZone& zone,
                MachineVerdict* verdict) const;

 private:
  Availability trace_;
  size_t line_;
  double speed_;
};

}  // namespace atolld
