// FetchSchedule: which of several donors is asked for which item of a fetch (a block, an entry, a
// header), and when a second one is asked for what a slow one owes.
//
// Items are numbered and used in order. Laws: nothing is asked for at or beyond next() + window, so
// that what came out of order is bounded; an item is asked of one donor, and of a second one only
// when that one has nothing else to do and the first is late; a slow donor has fewer requests ahead
// than a fast one. Pure state; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "absl/time/time.h"

namespace atolld {

class FetchSchedule {
 public:
  // Items first .. end-1. `ahead`: the most requests that a stream has on their way.
  FetchSchedule(uint64_t first, uint64_t end, uint64_t window, size_t ahead);

  void AddStream(int stream);
  void RemoveStream(int stream);  // what it owed goes to others

  // The item to ask of `stream` now; it is owed by it from now on.
  std::optional<uint64_t> Ask(int stream, absl::Time now);

  // What the stream's next answer is about (answers come in the order of the requests).
  std::optional<uint64_t> Owed(int stream) const;
  // That answer is whole. False: the item was here already.
  bool Took(int stream, absl::Time now);

  void Have(uint64_t item);      // it is here, from wherever
  void Lost(uint64_t item);      // it is not, after all
  void Consumed(uint64_t next);  // all items below are used up

  uint64_t next() const { return next_; }
  uint64_t end() const { return end_; }
  bool IsHere(uint64_t item) const { return item < next_ || here_.count(item) != 0; }
  // Items that nobody owes and that may be asked for.
  bool AnyOpen() const;
  // How many are still to come, at most.
  uint64_t missing() const;

  // When Ask may answer otherwise although nothing came. InfiniteFuture: never.
  absl::Time ReconsiderAt() const;

 private:
  struct Request {
    uint64_t item;
    absl::Time asked;
  };
  struct Stream {
    std::deque<Request> owed;
    absl::Time last_answer = absl::InfinitePast();
    absl::Duration interval = absl::ZeroDuration();  // between answers, smoothed; zero: unknown
  };
  size_t Depth(const Stream& stream) const;
  size_t Askers(uint64_t item) const;
  std::optional<uint64_t> FirstOpen() const;
  // The lowest item that one stream alone owes, and since when.
  std::optional<Request> Oldest() const;
  absl::Time LateAt(const Stream& idle, const Request& request) const;

  const uint64_t end_;
  const uint64_t window_;
  const size_t ahead_;
  uint64_t next_;
  std::set<uint64_t> here_;  // at or above next_
  std::map<int, Stream> streams_;
};

}  // namespace atolld
