#include "daemon/replica/transfer/fetch_schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// The number of blocks that others must give before a donor that failed once is tried again: enough
// that an unstable donor costs only one dial every few blocks, and few enough that it is back
// within a second of a fetch.
constexpr uint64_t kProgressBeforeRetry = 8;
constexpr uint32_t kMostDoublings = 8;

// The requests ahead of a stream of unknown speed: one is answered while the next is read.
constexpr size_t kFirstAhead = 2;

// An item is late when an idle donor could have given it this many times, but not before the round
// trip of a long link has passed: less is no sign of slowness.
constexpr int kLateFactor = 4;
constexpr absl::Duration kNeverLateBefore = absl::Milliseconds(200);

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
  const bool any = std::any_of(donors_.begin(), donors_.end(), [](const Donor& donor) {
    return !donor.gone && donor.state == State::kLacksIt;
  });
  return absl::Status(any ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable,
                      absl::StrCat("every donor failed; the last: ", last_reason_.message()));
}

FetchSchedule::FetchSchedule(uint64_t first, uint64_t end, uint64_t window, size_t ahead)
    : end_(end), window_(window), ahead_(ahead), next_(first) {
  CHECK(first <= end && window > 0 && ahead > 0);
}

void FetchSchedule::AddStream(int stream) { streams_[stream]; }
void FetchSchedule::RemoveStream(int stream) { streams_.erase(stream); }

size_t FetchSchedule::Askers(uint64_t item) const {
  size_t askers = 0;
  for (const auto& [id, stream] : streams_) {
    for (const Request& request : stream.owed) askers += request.item == item ? 1 : 0;
  }
  return askers;
}

std::optional<uint64_t> FetchSchedule::FirstOpen() const {
  const uint64_t limit = end_ - next_ < window_ ? end_ : next_ + window_;
  for (uint64_t item = next_; item < limit; ++item) {
    if (here_.count(item) == 0 && Askers(item) == 0) return item;
  }
  return std::nullopt;
}

bool FetchSchedule::AnyOpen() const { return FirstOpen().has_value(); }

uint64_t FetchSchedule::missing() const { return end_ - next_ - here_.size(); }

size_t FetchSchedule::Depth(const Stream& stream) const {
  if (stream.interval == absl::ZeroDuration()) return std::min(kFirstAhead, ahead_);
  absl::Duration fastest = stream.interval;
  for (const auto& [id, other] : streams_) {
    if (other.interval > absl::ZeroDuration()) fastest = std::min(fastest, other.interval);
  }
  const double share = absl::FDivDuration(fastest, stream.interval);
  return std::clamp<size_t>(static_cast<size_t>(share * static_cast<double>(ahead_) + 0.5), 1,
                            ahead_);
}

std::optional<FetchSchedule::Request> FetchSchedule::Oldest() const {
  std::optional<Request> oldest;
  for (const auto& [id, stream] : streams_) {
    for (const Request& request : stream.owed) {
      if (IsHere(request.item) || Askers(request.item) > 1) continue;
      if (!oldest || request.item < oldest->item) oldest = request;
    }
  }
  return oldest;
}

absl::Time FetchSchedule::LateAt(const Stream& idle, const Request& request) const {
  if (idle.interval == absl::ZeroDuration()) return absl::InfiniteFuture();
  return request.asked + std::max(kNeverLateBefore, kLateFactor * idle.interval);
}

std::optional<uint64_t> FetchSchedule::Ask(int stream, absl::Time now) {
  const auto found = streams_.find(stream);
  CHECK(found != streams_.end());
  Stream& asked = found->second;
  if (asked.owed.size() >= Depth(asked)) return std::nullopt;
  std::optional<uint64_t> item = FirstOpen();
  if (!item && asked.owed.empty()) {
    const std::optional<Request> oldest = Oldest();
    if (oldest && LateAt(asked, *oldest) <= now) item = oldest->item;
  }
  if (!item) return std::nullopt;
  asked.owed.push_back({*item, now});
  return item;
}

std::optional<uint64_t> FetchSchedule::Owed(int stream) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.owed.empty()) return std::nullopt;
  return found->second.owed.front().item;
}

bool FetchSchedule::Took(int stream, absl::Time now) {
  Stream& from = streams_.at(stream);
  CHECK(!from.owed.empty());
  const Request request = from.owed.front();
  from.owed.pop_front();
  const absl::Duration interval =
      std::max(now - std::max(request.asked, from.last_answer), absl::Nanoseconds(1));
  from.last_answer = now;
  from.interval =
      from.interval == absl::ZeroDuration() ? interval : (3 * from.interval + interval) / 4;
  if (IsHere(request.item)) return false;
  here_.insert(request.item);
  return true;
}

void FetchSchedule::Have(uint64_t item) {
  CHECK(item < end_);
  if (item >= next_) here_.insert(item);
}

void FetchSchedule::Lost(uint64_t item) {
  CHECK(item >= next_);
  here_.erase(item);
}

void FetchSchedule::Consumed(uint64_t next) {
  CHECK(next >= next_ && next <= end_);
  next_ = next;
  here_.erase(here_.begin(), here_.lower_bound(next));
}

absl::Time FetchSchedule::ReconsiderAt() const {
  const std::optional<Request> oldest = Oldest();
  absl::Time at = absl::InfiniteFuture();
  if (!oldest) return at;
  for (const auto& [id, stream] : streams_) {
    if (stream.owed.empty()) at = std::min(at, LateAt(stream, *oldest));
  }
  return at;
}

}  // namespace atolld
