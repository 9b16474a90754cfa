// Error feedback of one peer: the loss of its sent updates is added to its next update.
//
//   a = update + decay * residual;  sent q = Encode(a)
//   after a commit that included it: residual = s * (a - Decode(q)), or s * a for chunks left out
//
// s is the scale by which the entry took the update (CarriedShare in
// membership/trust/contribution.h). If an update is refused for its content, its residual is
// dropped as well.
//  A residual is as long as the flat vector. With fragments, an update has only the values that its
// entry covers, and the entry changes only these values of the residual. An update that an entry
// left out completely is dropped, and the residual is unchanged.
//
// (compression/error_feedback.h describes error feedback; its beta is the run's decay.) Only the
// peer uses its residual, and the residual may be lost. The class Residual holds it and is used on
// the loop thread. The functions may be called from any thread; those that read or write the
// residual's file block, the others are pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "compression/codec.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"
#include "membership/history/fragment.h"
#include "membership/history/payload.h"

namespace atolld {

// Returns the factor by which the run multiplies a residual: 1 unless its spec says otherwise.
float FeedbackDecay(const v1::RunSpec& spec);

// `residual` holds the vector a (see above). Subtracts Decode(chunk) for every chunk in which
// contributor number `position` of the header was included. Chunks that cannot be decoded are left
// unchanged, and the first such error is returned.
absl::Status SubtractIncluded(const v1::EntryHeader& header, int position, const ChunkGrid& grid,
                              const Codec& codec, const Contribution& contribution,
                              absl::Span<float> residual);

// Returns the path of the residual's file in `dir`, beside the replica. With this file, a restart
// does not lose the part of an update that no other peer has received.
//
//   record("atoll.residual.1", genesis digest, version, values, tree digest of the values)
//   the values, raw fp32 LE
//
// `version` is the version of the header that settled the residual. Law: the file is valid as long
// as no later header includes this peer, since only an inclusion changes a residual. If that is not
// known, the residual is dropped. This call blocks.
std::string ResidualPath(const std::string& dir);

// Writes the residual's file, durably. After a crash the file is either the old one or the new one.
absl::Status SaveResidual(Files& files, const std::string& dir, const v1::Genesis& genesis,
                          uint64_t version, absl::Span<const float> values);

// Returns the residual that is valid for `peer` at `committed`, the newest version of the log in
// `dir`. Fails with NOT_FOUND if there is no file or it is no longer valid, and with DATA_LOSS if
// the file is corrupt.
absl::StatusOr<std::vector<float>> LoadResidual(Files& files, const std::string& dir,
                                                const v1::Genesis& genesis, uint64_t committed,
                                                const std::string& peer);

// Holds the residual. Law: the residual changes only when a header settles it or the peer's update
// is refused.
class Residual {
 public:
  // `self` is the peer's id and `dir` the folder of its replica.
  Residual(Env env, std::string self, std::string dir)
      : env_(env), self_(std::move(self)), dir_(std::move(dir)) {}

  // The residual; nullptr if it is zero.
  const std::shared_ptr<const std::vector<float>>& values() const { return values_; }
  // True while the residual is the one that was loaded from the disk.
  bool loaded() const { return loaded_; }

  // Loads the residual that is valid at `version` from the disk. This call blocks and is made
  // before the loop runs.
  void Load(const v1::Genesis& genesis, uint64_t version);

  // Returns the residual with the values that the entry of `version` covers replaced by `entry`.
  // The result is as long as the flat vector.
  std::vector<float> With(const Fragments& fragments, uint64_t version,
                          absl::Span<const float> entry) const;

  // Sets the residual's values when the header of `version` has settled it. `values` is nullptr if
  // the residual is not known.
  void Settle(uint64_t version, std::shared_ptr<const std::vector<float>> values);
  void Forget() { values_ = nullptr; }
  // Like Forget, but also removes the residual on the disk, so that no later process of this peer
  // loads it.
  void Discard(const v1::Genesis& genesis);

  // Called after a commit. Saves the settled residual, unless saves have recently taken too large a
  // share of the time.
  void Keep(const v1::Genesis& genesis);
  // Saves the residual if it is newer than the one on the disk, then calls `done`.
  void Save(const v1::Genesis& genesis, Task done);

 private:
  const Env env_;
  const std::string self_;
  const std::string dir_;

  std::shared_ptr<const std::vector<float>> values_;
  uint64_t version_ = 0;  // The version of the header that settled the residual.
  bool loaded_ = false;
  uint64_t saved_ = 0;      // The version of the residual on the disk.
  bool discarded_ = false;  // True if the file on the disk must be removed.
  bool saving_ = false;
  absl::Time may_save_ = absl::InfinitePast();
  std::vector<Task> waiting_;  // The tasks that wait for a save.
  CallbackGuard guard_;
};

}  // namespace atolld
