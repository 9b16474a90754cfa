#include "daemon/replica/donor_list.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/status_macros.h"

namespace atolld {

DonorList::DonorList(std::vector<std::string> donors) {
  for (std::string& address : donors) donors_.push_back({std::move(address), State::kFresh});
}

void DonorList::FindFresh() {
  // After the current one first, so that a donor that just failed is not the next to be asked.
  for (size_t i = 0; i < donors_.size(); ++i) {
    const size_t next = (current_ + i) % donors_.size();
    if (donors_[next].state == State::kFresh) {
      current_ = next;
      return;
    }
  }
  current_ = donors_.size();
}

void DonorList::Leave(Why why, const absl::Status& reason) {
  CHECK(any());
  Donor& donor = donors_[current_];
  donor.state = why == Why::kLied      ? State::kLied
                : why == Why::kLacksIt ? State::kLacksIt
                                       : State::kFailed;
  if (why != Why::kLacksIt || last_reason_.ok()) {
    last_reason_ = Annotate(reason, absl::StrCat("donor ", donor.address));
  }
  FindFresh();
}

void DonorList::Progressed() {
  for (Donor& donor : donors_) {
    if (donor.state != State::kLied) donor.state = State::kFresh;
  }
}

void DonorList::AskAgain() {
  Progressed();
  current_ = 0;
  FindFresh();
}

bool DonorList::AllLackIt() const {
  return !donors_.empty() && std::all_of(donors_.begin(), donors_.end(), [](const Donor& donor) {
    return donor.state == State::kLacksIt;
  });
}

absl::Status DonorList::Verdict() const {
  if (donors_.empty()) return absl::UnavailableError("there is no donor to ask");
  if (AllLackIt()) return absl::NotFoundError(last_reason_.message());
  return absl::UnavailableError(
      absl::StrCat("every donor failed; the last: ", last_reason_.message()));
}

}  // namespace atolld
