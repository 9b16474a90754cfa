#include "daemon/replica/transfer/donor_list.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// Blocks that others must give before a donor that failed once is tried again: enough that a
// flapping one costs a dial in every few blocks, few enough that it is back within a second of a
// fetch.
constexpr uint64_t kProgressBeforeRetry = 8;
constexpr uint32_t kMostDoublings = 8;

}  // namespace

DonorList::DonorList(const std::vector<std::string>& addresses) { Set(addresses); }

DonorList::Donor* DonorList::Find(const std::string& address) {
  for (Donor& donor : donors_) {
    if (donor.address == address) return &donor;
  }
  return nullptr;
}

void DonorList::Set(const std::vector<std::string>& addresses) {
  std::vector<Donor> next;
  for (const std::string& address : addresses) {
    const Donor* known = Find(address);
    next.push_back(known != nullptr ? *known : Donor{});
    next.back().address = address;
    next.back().gone = false;
  }
  for (const Donor& donor : donors_) {
    const bool stays =
        std::find(addresses.begin(), addresses.end(), donor.address) != addresses.end();
    // A liar that leaves the roster and comes back is a liar still.
    if (stays || (donor.state != State::kAsked && donor.state != State::kLied)) continue;
    next.push_back(donor);
    next.back().gone = true;
  }
  donors_ = std::move(next);
}

std::optional<std::string> DonorList::Take() {
  const bool alone = asked() == 0;
  for (Donor& donor : donors_) {
    if (donor.gone) continue;
    bool may = donor.state == State::kFresh;
    if (donor.state == State::kPassedOver || donor.state == State::kLacksIt) {
      const uint64_t wait = kProgressBeforeRetry << std::min(donor.failures, kMostDoublings);
      may = progress_ - donor.left_at >= (alone ? 1 : wait);
    }
    if (!may) continue;
    donor.state = State::kAsked;
    donor.asked_from = progress_;
    return donor.address;
  }
  return std::nullopt;
}

void DonorList::Release(const std::string& address) {
  Donor* donor = Find(address);
  if (donor != nullptr && donor->state == State::kAsked) donor->state = State::kFresh;
}

void DonorList::Leave(const std::string& address, Why why, const absl::Status& reason) {
  Donor* donor = Find(address);
  if (donor == nullptr) return;
  donor->state = why == Why::kLied      ? State::kLied
                 : why == Why::kLacksIt ? State::kLacksIt
                                        : State::kPassedOver;
  // Progress while it was asked may have been its own; a donor that fails without any is slower to
  // be tried again.
  donor->failures = progress_ > donor->asked_from ? 1 : donor->failures + 1;
  donor->left_at = progress_;
  if (why != Why::kLacksIt || last_reason_.ok()) {
    last_reason_ = Annotate(reason, absl::StrCat("donor ", address));
  }
}

void DonorList::Progressed() { ++progress_; }

void DonorList::AskAgain() {
  for (Donor& donor : donors_) {
    if (donor.state == State::kPassedOver || donor.state == State::kLacksIt) {
      donor.state = State::kFresh;
    }
  }
}

size_t DonorList::asked() const {
  return static_cast<size_t>(std::count_if(donors_.begin(), donors_.end(), [](const Donor& donor) {
    return donor.state == State::kAsked;
  }));
}

bool DonorList::AllLackIt() const {
  bool any = false;
  for (const Donor& donor : donors_) {
    if (donor.gone) continue;
    any = true;
    if (donor.state != State::kLacksIt) return false;
  }
  return any;
}

absl::Status DonorList::Verdict() const {
  if (donors_.empty()) return absl::UnavailableError("there is no donor to ask");
  if (AllLackIt()) return absl::NotFoundError(last_reason_.message());
  return absl::UnavailableError(
      absl::StrCat("every donor failed; the last: ", last_reason_.message()));
}

}  // namespace atolld
