// The part of old headers that is kept once they have been checked (HistorySummary), and the
// checkpoint in which the coordinator stores it, so that at a start it needs to read only the
// newest headers.
//
// Law: a checkpoint carries a proof over everything in it and over the run's genesis. The proof is
// a signature by the history key or, in a run without one, the digest itself. If a checkpoint's
// proof is wrong, the checkpoint is not used and every header is checked again. Pure. Used by one
// thread.
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

// The total contribution of one peer.
struct ContributorSum {
  std::string peer;
  uint64_t rounds = 0;
  uint64_t tokens = 0;
  uint64_t steps = 0;
  uint64_t first_version = 0;
  uint64_t last_version = 0;
  // The sum of the peer's shares of the means (see MeanShares), added in the order of the headers.
  double shares = 0;
};

// Returns each contributor's share, from 0 to 1, of the weight in a header's mean, in the header's
// order.
std::vector<double> MeanShares(const v1::EntryHeader& header);

// Versions whose headers the store lacks, because no peer still had them when the store adopted
// later headers.
struct HistoryGap {
  uint64_t first = 0;
  uint64_t last = 0;
};

struct HistoryCheckpoint {
  // The checkpoint covers the headers up to this version; 0 if there is no checkpoint.
  uint64_t version = 0;
  // In an update for a store: the version of the stored checkpoint that the update continues; the
  // update then holds only what is new. In a loaded checkpoint, which holds everything, this is 0.
  uint64_t after = 0;
  // The digests of the headers from version after + 1 on, of kDigestBytes each; zeros if the header
  // is in a gap.
  std::string digests;
  // In ascending order; an update has only those that have changed.
  std::vector<ContributorSum> contributors;
  std::string proof;
};

// Applies an update to the stored checkpoint, which is then complete up to the update's version.
void Renew(const HistoryCheckpoint& update, HistoryCheckpoint* stored);

// The digests of a chain's headers, in 32 bytes a header, and the totals of its contributors.
class HistorySummary {
 public:
  HistorySummary() = default;
  // Restores everything that a loaded checkpoint covers. The checkpoint must have passed
  // CheckCheckpoint.
  explicit HistorySummary(const HistoryCheckpoint& checkpoint);

  uint64_t version() const { return digests_.size() / kDigestBytes; }
  // Returns the digest of the header of this version, between 1 and version(), or "" if it is in a
  // gap.
  std::string digest(uint64_t version) const;
  const std::map<std::string, ContributorSum>& contributors() const { return contributors_; }
  // The number of headers that were counted.
  uint64_t headers() const { return version() - missing_; }
  // The bytes of memory that grow with the history.
  size_t bytes() const { return digests_.capacity(); }

  // Adds a later header. If its version is not the next one, the versions between become a gap.
  void Add(const v1::EntryHeader& header, absl::string_view digest);

  uint64_t since_checkpoint() const { return version() - checkpointed_; }
  // Returns what is new since the previous checkpoint. The caller sets its proof.
  HistoryCheckpoint TakeCheckpoint();
  // Returns a checkpoint of everything, without a proof.
  HistoryCheckpoint Whole() const;

  // Returns the digest that a proof covers.
  Digest ProvenDigest(absl::string_view genesis_digest) const;

 private:
  void Append(absl::string_view digest);

  std::string digests_;
  Digest folded_ = {};  // a hash into which each digest was hashed in turn
  std::map<std::string, ContributorSum> contributors_;
  uint64_t missing_ = 0;  // the number of versions in gaps
  uint64_t checkpointed_ = 0;
  // The contributors that changed since the last checkpoint.
  std::set<std::string> changed_;
};

// Returns the proof over ProvenDigest for a signed history.
std::string SignCheckpoint(const SigningKey& key, const Digest& digest);

// Fails with DATA_LOSS if the checkpoint is not complete, or if its proof was not made with the
// run's history key. `spec` and `genesis_digest` belong to the run.
absl::Status CheckCheckpoint(const v1::RunSpec& spec, absl::string_view genesis_digest,
                             const HistoryCheckpoint& checkpoint);

}  // namespace atolld
