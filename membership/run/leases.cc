#include "membership/run/leases.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace atolld {
namespace {

// The holder's name of lost samples. No peer can have it.
constexpr char kLost[] = "?";

v1::SampleRange MakeRange(uint64_t first, uint64_t count) {
  v1::SampleRange range;
  range.set_first(first);
  range.set_count(count);
  return range;
}

}  // namespace

uint64_t SamplesAPass(uint64_t train_tokens, uint32_t context) {
  if (context == 0 || train_tokens <= context) return 0;
  // This is one window less than fits, since the start of the first one moves from pass to pass.
  return std::max<uint64_t>(1, train_tokens / context - 1);
}

std::string AheadHolder(const std::string& peer) { return peer + "+"; }

LeaseBook::LeaseBook(const LeaseRecords& records) : next_(records.next) {
  for (const LeaseRecord& record : records.ranges) {
    Put(record.first, Lease{record.count, record.holder});
  }
}

LeaseBook::Ranges LeaseBook::Grant(const std::string& holder, uint64_t count) {
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  const auto free = held_.find("");
  if (free != held_.end()) {
    for (const uint64_t first : free->second) {
      if (count == 0) break;
      const uint64_t part = std::min(count, unspent_.at(first).count);
      taken.emplace_back(first, part);
      count -= part;
    }
  }
  if (count > 0) {
    Put(next_, Lease{count, ""});
    taken.emplace_back(next_, count);
    next_ += count;
  }
  Ranges ranges;
  for (const auto& [first, part] : taken) {
    Assign(first, part, holder);
    // Neighbouring ranges that are granted together are given to the worker as one range.
    if (!ranges.empty() && ranges.back().first() + ranges.back().count() == first) {
      ranges.back().set_count(ranges.back().count() + part);
    } else {
      ranges.push_back(MakeRange(first, part));
    }
    Merge(first, first + part);
  }
  return ranges;
}

bool LeaseBook::Adopt(const std::string& holder, absl::Span<const v1::SampleRange> ranges) {
  std::vector<std::pair<uint64_t, uint64_t>> sorted;
  for (const v1::SampleRange& range : ranges) {
    if (range.count() == 0 || range.first() >= next_ || range.count() > next_ - range.first())
      return false;
    sorted.emplace_back(range.first(), range.count());
  }
  std::sort(sorted.begin(), sorted.end());
  uint64_t previous_end = 0;
  for (const auto& [first, count] : sorted) {
    if (first < previous_end) return false;
    previous_end = first + count;
    uint64_t at = first;
    while (at < first + count) {
      auto it = unspent_.upper_bound(at);
      if (it == unspent_.begin()) return false;
      --it;
      const uint64_t end = it->first + it->second.count;
      if (end <= at) return false;
      if (!it->second.holder.empty() && it->second.holder != holder) return false;
      at = end;
    }
  }
  Return(holder);
  for (const auto& [first, count] : sorted) {
    Assign(first, count, holder);
    Merge(first, first + count);
  }
  return true;
}

void LeaseBook::Spend(const std::string& holder) {
  const auto held = held_.find(holder);
  if (held == held_.end()) return;
  for (const uint64_t first : held->second) unspent_.erase(first);
  held_.erase(held);
}

void LeaseBook::Return(const std::string& holder) { Hand(holder, ""); }

void LeaseBook::Hand(const std::string& from, const std::string& to) {
  for (const v1::SampleRange& range : Held(from)) {
    Assign(range.first(), range.count(), to);
    Merge(range.first(), range.first() + range.count());
  }
}

bool LeaseBook::Unspent(uint64_t first, uint64_t end) const {
  while (first < end) {
    auto it = unspent_.upper_bound(first);
    if (it == unspent_.begin()) return false;
    --it;
    const uint64_t unspent_end = it->first + it->second.count;
    if (unspent_end <= first) return false;
    first = unspent_end;
  }
  return true;
}

bool LeaseBook::MarkSpent(absl::Span<const v1::SampleRange> ranges) {
  std::vector<std::pair<uint64_t, uint64_t>> sorted;
  for (const v1::SampleRange& range : ranges) {
    if (range.count() == 0 || range.count() > UINT64_MAX - range.first()) return false;
    sorted.emplace_back(range.first(), range.first() + range.count());
  }
  std::sort(sorted.begin(), sorted.end());
  uint64_t previous_end = 0;
  for (const auto& [first, end] : sorted) {
    if (first < previous_end || !Unspent(first, std::min(end, std::max(first, next_))))
      return false;
    previous_end = end;
  }
  Reach(previous_end);
  for (const auto& [first, end] : sorted) {
    SplitAt(first);
    SplitAt(end);
    for (auto it = unspent_.lower_bound(first); it != unspent_.end() && it->first < end;) {
      it = Remove(it);
    }
  }
  return true;
}

void LeaseBook::Reach(uint64_t next) {
  if (next <= next_) return;
  Put(next_, Lease{next - next_, ""});
  Merge(next_, next);
  next_ = next;
}

void LeaseBook::Lose(uint64_t end) {
  Reach(end);
  held_.clear();
  for (auto& [first, lease] : unspent_) {
    lease.holder = kLost;
    held_[kLost].insert(first);
  }
  Merge(0, next_);
}

LeaseBook::Ranges LeaseBook::Held(const std::string& holder) const {
  Ranges ranges;
  const auto held = held_.find(holder);
  if (held == held_.end()) return ranges;
  for (const uint64_t first : held->second) {
    ranges.push_back(MakeRange(first, unspent_.at(first).count));
  }
  return ranges;
}

bool LeaseBook::HoldsExactly(const std::string& holder,
                             absl::Span<const v1::SampleRange> ranges) const {
  const Ranges held = Held(holder);
  return std::equal(held.begin(), held.end(), ranges.begin(), ranges.end(),
                    [](const v1::SampleRange& a, const v1::SampleRange& b) {
                      return a.first() == b.first() && a.count() == b.count();
                    });
}

bool LeaseBook::holds(const std::string& holder) const { return held_.count(holder) > 0; }

LeaseRecords LeaseBook::Save() const {
  LeaseRecords records;
  records.next = next_;
  for (const auto& [first, lease] : unspent_) {
    records.ranges.push_back(LeaseRecord{lease.holder, first, lease.count});
  }
  return records;
}

v1::DataStatus LeaseBook::Status() const {
  uint64_t held = 0;
  uint64_t free = 0;
  uint64_t lost = 0;
  for (const auto& [first, lease] : unspent_) {
    (lease.holder.empty() ? free : lease.holder == kLost ? lost : held) += lease.count;
  }
  v1::DataStatus status;
  status.set_next(next_);
  status.set_held(held);
  status.set_returned(free);
  status.set_spent(next_ - held - free - lost);
  return status;
}

void LeaseBook::Put(uint64_t first, Lease lease) {
  held_[lease.holder].insert(first);
  unspent_[first] = std::move(lease);
}

std::map<uint64_t, LeaseBook::Lease>::iterator LeaseBook::Remove(
    std::map<uint64_t, Lease>::iterator at) {
  const auto held = held_.find(at->second.holder);
  held->second.erase(at->first);
  if (held->second.empty()) held_.erase(held);
  return unspent_.erase(at);
}

void LeaseBook::Assign(uint64_t first, uint64_t count, const std::string& holder) {
  SplitAt(first);
  SplitAt(first + count);
  for (auto it = unspent_.lower_bound(first); it != unspent_.end() && it->first < first + count;) {
    const uint64_t at = it->first;
    const uint64_t length = it->second.count;
    it = Remove(it);
    Put(at, Lease{length, holder});
  }
}

void LeaseBook::SplitAt(uint64_t at) {
  auto it = unspent_.upper_bound(at);
  if (it == unspent_.begin()) return;
  --it;
  const uint64_t end = it->first + it->second.count;
  if (it->first == at || end <= at) return;
  it->second.count = at - it->first;
  Put(at, Lease{end - at, it->second.holder});
}

void LeaseBook::Merge(uint64_t first, uint64_t end) {
  auto it = unspent_.lower_bound(first);
  if (it != unspent_.begin()) --it;
  while (it != unspent_.end() && it->first <= end) {
    const auto following = std::next(it);
    if (following == unspent_.end()) return;
    if (it->first + it->second.count == following->first &&
        it->second.holder == following->second.holder) {
      it->second.count += following->second.count;
      Remove(following);
    } else {
      it = following;
    }
  }
}

}  // namespace atolld
