// LeaseBook: records which peer may train on which samples of the shared corpus.
//
// A sample is free, held by one peer, spent, or lost. It becomes spent when an update that was
// trained on it is committed, which happens only once. When a holder dies or gives up, its samples
// become free and are granted again before fresh ones. Sample numbers have no upper end, because
// the worker maps them to its text pass after pass. A grant therefore never fails. Law: spent,
// free, held and lost samples are disjoint and together are exactly [0, next). Pure. Used by one
// thread.
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

// A range of samples that are not spent. In LeaseRecords, samples below `next` that are in no range
// are spent, and samples from `next` on were never leased.
struct LeaseRecord {
  std::string holder;  // empty if the samples are free
  uint64_t first = 0;
  uint64_t count = 0;
};
struct LeaseRecords {
  uint64_t next = 0;
  std::vector<LeaseRecord> ranges;  // ascending, disjoint
};

// Returns the number of samples in one pass over a training text of this many tokens, or 0 if
// either number is unknown. worker/data/sample_order.h cuts the text into the same number of
// sequences; a test of the worker checks that both agree.
uint64_t SamplesAPass(uint64_t train_tokens, uint32_t context);

// Returns the holder's name for the samples on which a peer trains ahead. The samples of the update
// that the peer offers are held under the peer's own name. No peer can have the returned name.
std::string AheadHolder(const std::string& peer);

class LeaseBook {
 public:
  using Ranges = std::vector<v1::SampleRange>;

  LeaseBook() = default;
  explicit LeaseBook(const LeaseRecords& records);

  // Leases `count` samples to `holder` in addition to those that it holds: the lowest free ones
  // first, then fresh ones.
  Ranges Grant(const std::string& holder, uint64_t count);

  // Makes `holder` hold exactly `ranges`, if each of these samples is free or already held by it.
  // Its other samples become free. Returns false, and changes nothing, if a sample is spent, held
  // by another, named twice, or was never leased.
  bool Adopt(const std::string& holder, absl::Span<const v1::SampleRange> ranges);

  // Spend marks all samples of `holder` as spent, and Return marks them as free. Afterwards
  // `holder` holds nothing.
  void Spend(const std::string& holder);
  void Return(const std::string& holder);
  // Gives all samples that `from` holds to `to`, in addition to those that `to` already holds.
  void Hand(const std::string& from, const std::string& to);

  // Used if the book is older than the history. MarkSpent records that a committed entry has spent
  // these samples, no matter which peer holds them in this book. If they lie beyond next(), the
  // samples in between become free. It returns false, and changes nothing, if a sample is already
  // spent or named twice. Reach records that all samples below `next` have been leased before;
  // those that this book does not know become free.
  bool MarkSpent(absl::Span<const v1::SampleRange> ranges);
  void Reach(uint64_t next);
  // Called when headers that named samples are missing. Each sample below `end` that this book does
  // not know as spent may have been spent by one of them, so it becomes lost: no peer holds it or
  // is granted it any more. Only MarkSpent can still change it.
  void Lose(uint64_t end);

  Ranges Held(const std::string& holder) const;  // ascending
  // Returns true if `ranges` are exactly the samples of the holder, in the fewest possible ranges.
  bool HoldsExactly(const std::string& holder, absl::Span<const v1::SampleRange> ranges) const;
  bool holds(const std::string& holder) const;
  uint64_t next() const { return next_; }

  LeaseRecords Save() const;
  // Returns the status without samples_a_pass.
  v1::DataStatus Status() const;

 private:
  struct Lease {
    uint64_t count = 0;
    // Empty if the samples are free; a name that no peer can have if they are lost.
    std::string holder;
  };

  // Returns true if no sample of [first, end), which lies below next_, is spent.
  bool Unspent(uint64_t first, uint64_t end) const;
  // Gives [first, first + count) to `holder`. All samples of the range must be unspent.
  void Assign(uint64_t first, uint64_t count, const std::string& holder);
  // Cuts the range that contains `at`, so that a range begins there.
  void SplitAt(uint64_t at);
  // Merges neighbours with the same holder, from the range before `first` to the one at `end`.
  void Merge(uint64_t first, uint64_t end);
  void Put(uint64_t first, Lease lease);
  std::map<uint64_t, Lease>::iterator Remove(std::map<uint64_t, Lease>::iterator at);

  uint64_t next_ = 0;
  std::map<uint64_t, Lease> unspent_;  // by first sample
  // The first samples of each holder's ranges, and of the free ranges. This is an index, because a
  // holder has only a few of many thousand ranges.
  std::map<std::string, std::set<uint64_t>> held_;
};

}  // namespace atolld
