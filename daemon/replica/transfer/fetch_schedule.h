// The decisions of a fetch: DonorList says which donors may be asked. FetchSchedule says which of
// them is asked for which item, and when a second donor is asked for an item that a slow one owes.
//
// Both are pure, without I/O and clock. Used by one thread.
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

// The donors that a fetch may ask, several at once, and the error of the fetch if no donor is left.
//
// Donors are asked in the given order. A donor that failed, was busy or lacked the data is skipped
// until others have made progress; the more often it failed, the longer it is skipped. A donor that
// lied is never asked again.
class DonorList {
 public:
  enum class Why { kFailed, kBusy, kLacksIt, kLied };

  explicit DonorList(const std::vector<std::string>& addresses);

  // Sets the present donors, best first. The record of a donor that remains is kept; a donor that
  // is being asked continues to be asked until Leave or Release is called.
  void Set(const std::vector<std::string>& addresses);

  // Returns one more donor to ask, which counts as being asked from now on. Returns nullopt if
  // there is none. If no donor is being asked, all donors that failed before the last progress may
  // be asked again.
  std::optional<std::string> Take();

  // Called when the donor is no longer asked, through no fault of its own.
  void Release(const std::string& address);
  // Called when the donor is no longer asked because it failed, was busy, lacked the data or lied.
  void Leave(const std::string& address, Why why, const absl::Status& reason);

  // Called when a donor gave data that passed its check.
  void Progressed();

  // Forgets everything except which donors lied. Called before the donors are asked for other data.
  void AskAgain();

  size_t asked() const;

  // Returns the error of the fetch. Called once Take() returns nullopt and no donor is being asked.
  // NOT_FOUND means that every donor lacks the data, ABORTED that some donors lack it and the
  // others failed, and UNAVAILABLE that all failed. The messages of ABORTED and UNAVAILABLE have
  // the reason of the last failure.
  absl::Status Verdict() const;
  bool AllLackIt() const;

 private:
  enum class State { kFresh, kAsked, kPassedOver, kLacksIt, kLied };
  struct Donor {
    std::string address;
    State state = State::kFresh;
    bool gone = false;        // True if Set no longer names the donor.
    uint32_t failures = 0;    // The number of failures in a row.
    uint64_t left_at = 0;     // the value of progress_ when it was left
    uint64_t asked_from = 0;  // the value of progress_ from which it may be asked again
  };
  Donor* Find(const std::string& address);

  std::vector<Donor> donors_;
  uint64_t progress_ = 0;
  absl::Status last_reason_;
};

// Decides which of several donors is asked for which item of a fetch (a block, an entry, a header).
//
// Items are numbered and used in order. Laws: no item at or after next() + window is requested, so
// that the number of items that arrive out of order is bounded. An item is requested from one
// donor; a second donor is asked for it only if the second has nothing else to do and the first is
// late. A slow donor has fewer requests ahead than a fast one.
class FetchSchedule {
 public:
  // The items are first .. end-1. A stream has at most `ahead` requests under way.
  FetchSchedule(uint64_t first, uint64_t end, uint64_t window, size_t ahead);

  void AddStream(int stream);
  void RemoveStream(int stream);  // Other streams are then asked for the items that this one owed.

  // Returns the item for which `stream` must be asked now. The stream owes this item from now on.
  std::optional<uint64_t> Ask(int stream, absl::Time now);

  // Returns the item of the stream's next answer (answers come in the order of the requests).
  std::optional<uint64_t> Owed(int stream) const;
  // Called when that answer is complete. Returns false if the item had already arrived.
  bool Took(int stream, absl::Time now);

  void Have(uint64_t item);      // Called when the item has arrived, from any source.
  void Lost(uint64_t item);      // Called when an item that had arrived must be fetched again.
  void Consumed(uint64_t next);  // Called when all items before `next` were used.

  uint64_t next() const { return next_; }
  uint64_t end() const { return end_; }
  bool IsHere(uint64_t item) const { return item < next_ || here_.count(item) != 0; }
  // Returns true if there are items that may be requested and that no stream owes.
  bool AnyOpen() const;
  // Returns the largest number of items that may still have to come.
  uint64_t missing() const;

  // Returns the time at which Ask may return an item although nothing has changed; InfiniteFuture
  // if there is no such time.
  absl::Time ReconsiderAt() const;

 private:
  struct Request {
    uint64_t item;
    absl::Time asked;
  };
  struct Stream {
    std::deque<Request> owed;
    absl::Time last_answer = absl::InfinitePast();
    // The smoothed time between answers; zero if it is not known.
    absl::Duration interval = absl::ZeroDuration();
  };
  size_t Depth(const Stream& stream) const;
  size_t Askers(uint64_t item) const;
  std::optional<uint64_t> FirstOpen() const;
  // Returns the lowest item that only one stream owes, and the time since which the stream owes it.
  std::optional<Request> Oldest() const;
  absl::Time LateAt(const Stream& idle, const Request& request) const;

  const uint64_t end_;
  const uint64_t window_;
  const size_t ahead_;
  uint64_t next_;
  std::set<uint64_t> here_;  // The items at or after next_ that have arrived.
  std::map<int, Stream> streams_;
};

}  // namespace atolld
