// DonorList: whom a fetch may ask, several at once, and what to say when nobody is left.
//
// Donors are asked in the given order. One that failed, was busy or did not have it is passed over
// until others have made progress, the longer the more often it failed; one that lied is never
// asked again. Pure state, no I/O, no clock; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

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
  // UNAVAILABLE otherwise, with the last reason that was not that.
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

}  // namespace atolld
