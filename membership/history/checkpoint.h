// What is left of old headers once they have been checked: HistorySummary, and the checkpoint that
// keeps it in a coordinator's store, so that a start reads the newest headers alone.
//
// Law: a checkpoint carries a proof over all that it says and over the run's genesis: a signature
// by the history key, or, in a run without one, the digest itself. One that does not fit is worth
// nothing, and every header is checked again. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"
#include "membership/history/signing_key.h"

namespace atolld {

// What one peer has contributed.
struct ContributorSum {
  std::string peer;
  uint64_t rounds = 0;
  uint64_t tokens = 0;
  uint64_t steps = 0;
  uint64_t first_version = 0;
  uint64_t last_version = 0;
  double shares = 0;  // of the means, added up in the order of the headers (MeanShares)
};

// Of the weight in a header's mean, how much is each contributor's: 0-1, in the header's order.
std::vector<double> MeanShares(const v1::EntryHeader& header);

// Versions whose headers the store has not got: no peer had them any more when it adopted those
// after them.
struct HistoryGap {
  uint64_t first = 0;
  uint64_t last = 0;
};

struct HistoryCheckpoint {
  uint64_t version = 0;  // it covers the headers up to this one; 0: there is none
  // In a store's update: it goes on from the stored one of this version, and holds what is new. In
  // what was loaded 0: it holds everything.
  uint64_t after = 0;
  std::string digests;  // kDigestBytes for each header from after + 1 on; zeros: it is in a gap
  std::vector<ContributorSum> contributors;  // ascending; in an update those that have changed
  std::string proof;
};

// What a store does with an update of its checkpoint.
void Renew(const HistoryCheckpoint& update, HistoryCheckpoint* stored);

// The digests of a chain's headers, and what its contributors add up to: 32 bytes a header.
class HistorySummary {
 public:
  HistorySummary() = default;
  // Of all that a loaded checkpoint covers, whose sizes are right (CheckCheckpoint).
  explicit HistorySummary(const HistoryCheckpoint& checkpoint);

  uint64_t version() const { return digests_.size() / kDigestBytes; }
  // Of the header of this version, which is between 1 and version(). "": it is in a gap.
  std::string digest(uint64_t version) const;
  const std::map<std::string, ContributorSum>& contributors() const { return contributors_; }
  uint64_t headers() const { return version() - missing_; }  // that were counted
  size_t bytes() const { return digests_.capacity(); }       // of memory that grow with the history

  // A later header. What is between is a gap.
  void Add(const v1::EntryHeader& header, absl::string_view digest);

  uint64_t since_checkpoint() const { return version() - checkpointed_; }
  // What is new since the checkpoint before; its proof is still to be set.
  HistoryCheckpoint TakeCheckpoint();
  HistoryCheckpoint Whole() const;  // all of it; no proof

  // What a proof is over.
  Digest ProvenDigest(absl::string_view genesis_digest) const;

 private:
  void Append(absl::string_view digest);

  std::string digests_;
  Digest folded_ = {};  // each digest hashed into it in turn
  std::map<std::string, ContributorSum> contributors_;
  uint64_t missing_ = 0;  // versions in gaps
  uint64_t checkpointed_ = 0;
  std::set<std::string> changed_;  // contributors since then
};

// The proof over ProvenDigest where the history is signed.
std::string SignCheckpoint(const SigningKey& key, const Digest& digest);

// DATA_LOSS: it is not whole, or its proof is not by the run's history key; `spec` and
// `genesis_digest` are the run's own.
absl::Status CheckCheckpoint(const v1::RunSpec& spec, absl::string_view genesis_digest,
                             const HistoryCheckpoint& checkpoint);

}  // namespace atolld
