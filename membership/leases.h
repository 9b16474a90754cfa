// LeaseBook: which samples of the shared corpus are whose to train on.
//
// A sample is free, held by one peer, or spent, and it is spent once: when an update that was
// trained on it commits. A holder that dies or gives up hands its samples back, and they are
// granted again before fresh ones. Samples are numbered without end (the worker maps a number to
// text, pass after pass), so a grant never fails. Law: spent + free + held are disjoint and are
// together exactly [0, next). Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "membership/record.h"

namespace atolld {

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

  Ranges Held(const std::string& holder) const;  // ascending
  bool holds(const std::string& holder) const;
  uint64_t next() const { return next_; }

  LeaseRecords Save() const;

 private:
  struct Lease {
    uint64_t count = 0;
    std::string holder;  // empty: free
  };

  // Gives [first, first + count) to `holder`; the range must lie inside one or several unspent
  // ones.
  void Assign(uint64_t first, uint64_t count, const std::string& holder);
  // Cuts the range that spans `at`, so that one begins there.
  void SplitAt(uint64_t at);
  void Merge();

  uint64_t next_ = 0;
  std::map<uint64_t, Lease> unspent_;  // by first sample
};

}  // namespace atolld
