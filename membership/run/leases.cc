#include "membership/run/leases.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace atolld {
namespace {

v1::SampleRange MakeRange(uint64_t first, uint64_t count) {
  v1::SampleRange range;
  range.set_first(first);
  range.set_count(count);
  return range;
}

}  // namespace

uint64_t SamplesAPass(uint64_t train_tokens, uint32_t context) {
  if (context == 0 || train_tokens <= context) return 0;
  // One window less than fits, since where the first one starts moves from pass to pass.
  return std::max<uint64_t>(1, train_tokens / context - 1);
}

LeaseBook::LeaseBook(const LeaseRecords& records) : next_(records.next) {
  for (const LeaseRecord& record : records.ranges) {
    unspent_[record.first] = Lease{record.count, record.holder};
  }
}

LeaseBook::Ranges LeaseBook::Grant(const std::string& holder, uint64_t count) {
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  for (const auto& [first, lease] : unspent_) {
    if (count == 0) break;
    if (!lease.holder.empty()) continue;
    const uint64_t part = std::min(count, lease.count);
    taken.emplace_back(first, part);
    count -= part;
  }
  if (count > 0) {
    unspent_[next_] = Lease{count, ""};
    taken.emplace_back(next_, count);
    next_ += count;
  }
  Ranges ranges;
  for (const auto& [first, part] : taken) {
    Assign(first, part, holder);
    // Neighbours granted together are one range to the worker.
    if (!ranges.empty() && ranges.back().first() + ranges.back().count() == first) {
      ranges.back().set_count(ranges.back().count() + part);
    } else {
      ranges.push_back(MakeRange(first, part));
    }
  }
  Merge();
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
  for (const auto& [first, count] : sorted) Assign(first, count, holder);
  Merge();
  return true;
}

void LeaseBook::Spend(const std::string& holder) {
  for (auto it = unspent_.begin(); it != unspent_.end();) {
    it = it->second.holder == holder ? unspent_.erase(it) : std::next(it);
  }
}

void LeaseBook::Return(const std::string& holder) {
  for (auto& [first, lease] : unspent_) {
    if (lease.holder == holder) lease.holder.clear();
  }
  Merge();
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
    unspent_.erase(unspent_.lower_bound(first), unspent_.lower_bound(end));
  }
  Merge();
  return true;
}

void LeaseBook::Reach(uint64_t next) {
  if (next <= next_) return;
  unspent_[next_] = Lease{next - next_, ""};
  next_ = next;
  Merge();
}

LeaseBook::Ranges LeaseBook::Held(const std::string& holder) const {
  Ranges ranges;
  for (const auto& [first, lease] : unspent_) {
    if (lease.holder == holder) ranges.push_back(MakeRange(first, lease.count));
  }
  return ranges;
}

bool LeaseBook::holds(const std::string& holder) const {
  return std::any_of(unspent_.begin(), unspent_.end(),
                     [&](const auto& entry) { return entry.second.holder == holder; });
}

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
  for (const auto& [first, lease] : unspent_) (lease.holder.empty() ? free : held) += lease.count;
  v1::DataStatus status;
  status.set_next(next_);
  status.set_held(held);
  status.set_returned(free);
  status.set_spent(next_ - held - free);
  return status;
}

void LeaseBook::Assign(uint64_t first, uint64_t count, const std::string& holder) {
  SplitAt(first);
  SplitAt(first + count);
  for (auto it = unspent_.lower_bound(first); it != unspent_.end() && it->first < first + count;
       ++it) {
    it->second.holder = holder;
  }
}

void LeaseBook::SplitAt(uint64_t at) {
  auto it = unspent_.upper_bound(at);
  if (it == unspent_.begin()) return;
  --it;
  const uint64_t end = it->first + it->second.count;
  if (it->first == at || end <= at) return;
  it->second.count = at - it->first;
  unspent_[at] = Lease{end - at, it->second.holder};
}

void LeaseBook::Merge() {
  for (auto it = unspent_.begin(); it != unspent_.end();) {
    auto following = std::next(it);
    if (following != unspent_.end() && it->first + it->second.count == following->first &&
        it->second.holder == following->second.holder) {
      it->second.count += following->second.count;
      unspent_.erase(following);
    } else {
      it = following;
    }
  }
}

}  // namespace atolld
