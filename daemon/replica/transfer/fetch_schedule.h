// Whom a fetch asks for what: DonorList says which donors may be asked, FetchSchedule which of them
// is asked for which item, and when a second one is asked for what a slow one owes.
//
// Pure state, no I/O, no clock; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace atolld {

// Whom a fetch may ask, several at once, and what to say when nobody is left.
//
// Donors are asked in the given order. One that failed, was busy or did not have it is passed over
// until others have made progress, the longer the more often it failed; one that lied is never
// asked again.
class DonorList {
 public:
  enum class Why { kFailed, kBusy, kLacksIt, kLied };

  explicit DonorList(const std::vector<std::string>& addresses);

  // The donors that there are now, best first. What is known of those that stay is kept; who is
  // asked already stays so until it is left or released.
  void Set(const std::vector<std::string>& addresses);

  // Whom to ask beside those that are asked already; asked from now on. Nothing: nobody can be.
  // When nobody is being asked, all that failed before the last progress may be asked again.
  std::optional<std::string> Take();

  // Asked no more, without a fault.
  void Release(const std::string& address);
  // Asked no more, for a reason.
  void Leave(const std::string& address, Why why, const absl::Status& reason);

  // A donor gave something that was checked.
  void Progressed();

  // Forgets all but the lies, to ask for something else.
  void AskAgain();

  size_t asked() const;

  // Once Take() gives nobody and nobody is being asked. NOT_FOUND: every donor lacks it.
  // ABORTED: some do, and the others failed. UNAVAILABLE: all failed. Both with the last reason
  // that was not that a donor lacks it.
  absl::Status Verdict() const;
  bool AllLackIt() const;

 private:
  enum class State { kFresh, kAsked, kPassedOver, kLacksIt, kLied };
  struct Donor {
    std::string address;
    State state = State::kFresh;
    bool gone = false;        // no longer named by Set
    uint32_t failures = 0;    // in a row
    uint64_t left_at = 0;     // count of progress
    uint64_t asked_from = 0;  // count of progress
  };
  Donor* Find(const std::string& address);

  std::vector<Donor> donors_;
  uint64_t progress_ = 0;
  absl::Status last_reason_;
};

// Which of several donors is asked for which item of a fetch (a block, an entry, a header).
//
// Items are numbered and used in order. Laws: nothing is asked for at or beyond next() + window, so
// that what came out of order is bounded; an item is asked of one donor, and of a second one only
// when that one has nothing else to do and the first is late; a slow donor has fewer requests ahead
// than a fast one.
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
