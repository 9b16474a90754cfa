// DonorList: which donor a fetch asks next, and what to say when there is none left.
//
// Donors are asked in the given order. One that failed or did not have it is passed over until
// another made progress; one that lied is never asked again. Pure state, no I/O; one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace atolld {

class DonorList {
 public:
  enum class Why { kFailed, kLacksIt, kLied };

  explicit DonorList(std::vector<std::string> donors);

  // Whether anybody is left; then current() is whom to ask.
  bool any() const { return current_ < donors_.size(); }
  const std::string& current() const { return donors_[current_].address; }

  // Turns from the current donor to the next one that may be asked.
  void Leave(Why why, const absl::Status& reason);

  // The current donor gave something that was checked: the others may be asked again after it.
  void Progressed();

  // Forgets all but the lies, to ask for something else.
  void AskAgain();

  // Once any() is false. NOT_FOUND: every donor lacks it. UNAVAILABLE otherwise, with the last
  // reason that was not that.
  absl::Status Verdict() const;
  bool AllLackIt() const;

 private:
  enum class State { kFresh, kFailed, kLacksIt, kLied };
  struct Donor {
    std::string address;
    State state = State::kFresh;
  };
  void FindFresh();

  std::vector<Donor> donors_;
  size_t current_ = 0;
  absl::Status last_reason_;
};

}  // namespace atolld
