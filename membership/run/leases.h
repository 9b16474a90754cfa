// LeaseBook: which samples of the shared corpus are whose to train on.
//
// A sample is free, held by one peer, or spent, and it is spent once: when an update that was
// trained on it commits. A holder that dies or gives up hands its samples back, and they are
// granted again before fresh ones. Samples are numbered without end (the worker maps a number to
// text, pass after pass), so a grant never fails. Law: spent + free + held + lost are disjoint
// and are together exactly [0, next). Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// Samples that are not spent. Those below `next` that are in no range are spent; those from `next`
// on were never leased.
struct LeaseRecord {
  std::string holder;  // empty: free
  uint64_t first = 0;
  uint64_t count = 0;
};
struct LeaseRecords {
  uint64_t next = 0;
  std::vector<LeaseRecord> ranges;  // ascending, disjoint
};

// Samples in one pass over a training text of so many tokens; 0 if either is not known. This is
// what worker/data/sample_order.h cuts the text into, sequence by sequence: a test of the worker
// keeps the two equal.
uint64_t SamplesAPass(uint64_t train_tokens, uint32_t context);

// Who holds the samples of what a peer trains ahead, beside the update that it has offered, whose
// samples the peer itself holds. No peer has this name.
std::string AheadHolder(const std::string& peer);

class LeaseBook {
 public:
  using Ranges = std::vector<v1::SampleRange>;

  LeaseBook() = default;
  explicit LeaseBook(const LeaseRecords& records);

  // Leases `count` samples to `holder`, beside what it holds: the lowest free ones first, then
  // fresh ones.
  Ranges Grant(const std::string& holder, uint64_t count);

  // Makes `ranges` exactly what `holder` holds, if each of their samples is free or its own
  // already; what else it held becomes free. False, and nothing changes, if a sample is spent,
  // another's, named twice or was never leased.
  bool Adopt(const std::string& holder, absl::Span<const v1::SampleRange> ranges);

  // All that `holder` holds is spent (returned). What it holds afterwards: nothing.
  void Spend(const std::string& holder);
  void Return(const std::string& holder);
  // All that `from` holds is `to`'s from now on, beside what that holds.
  void Hand(const std::string& from, const std::string& to);

  // For a book that is older than the history. MarkSpent: a committed entry spends these, whoever
  // holds them here; samples between next() and them become free. False, and nothing changes, if
  // one is spent already or named twice. Reach: all below `next` was leased once; what this book
  // does not know of becomes free.
  bool MarkSpent(absl::Span<const v1::SampleRange> ranges);
  void Reach(uint64_t next);
  // Headers that named samples are missing: whatever is not spent here, up to `end`, may be spent
  // there. It is lost: nobody keeps it or is granted it, and MarkSpent alone still takes it.
  void Lose(uint64_t end);

  Ranges Held(const std::string& holder) const;  // ascending
  // Whether these are what it holds, in as few ranges as that makes.
  bool HoldsExactly(const std::string& holder, absl::Span<const v1::SampleRange> ranges) const;
  bool holds(const std::string& holder) const;
  uint64_t next() const { return next_; }

  LeaseRecords Save() const;
  v1::DataStatus Status() const;  // without samples_a_pass

 private:
  struct Lease {
    uint64_t count = 0;
    std::string holder;  // empty: free; no peer's name: lost
  };

  // [first, end) lies below next_ and none of it is spent.
  bool Unspent(uint64_t first, uint64_t end) const;
  // Gives [first, first + count) to `holder`; the range must lie inside one or several unspent
  // ones.
  void Assign(uint64_t first, uint64_t count, const std::string& holder);
  // Cuts the range that spans `at`, so that one begins there.
  void SplitAt(uint64_t at);
  // Makes one range of neighbours that one holds, from the one before `first` to the one at `end`.
  void Merge(uint64_t first, uint64_t end);
  void Put(uint64_t first, Lease lease);
  std::map<uint64_t, Lease>::iterator Remove(std::map<uint64_t, Lease>::iterator at);

  uint64_t next_ = 0;
  std::map<uint64_t, Lease> unspent_;  // by first sample
  // Where the ranges of each holder, and those that are free, begin: a holder has a few of many
  // thousands.
  std::map<std::string, std::set<uint64_t>> held_;
};

}  // namespace atolld
