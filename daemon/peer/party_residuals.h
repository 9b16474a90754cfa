// Error feedback of virtual parties: a party's update loses as much in the run's codec as a
// separate peer's would, and the party carries this loss into its next update. (If the mean is
// encoded with the codec for slow lines, the further loss belongs to the mean, not to a party.)
//
//   a = update + decay * residual;  q = Decode(Encode(a)) is averaged
//   next residual = s * (a - q) if an entry has taken the round's mean with the scale s
//                   (CarriedShare), none if the mean was refused, else unchanged
//
// (See compression/error_feedback.h for error feedback. A peer learns whether a party's update was
// taken only when it is next asked to train, so a residual is settled when its party is next
// drawn.) Each residual lies in a file of its own in a folder of the peer; none is in memory.
// Residuals are dropped when the daemon is started again, since it is then not known which update
// was taken. Its calls block. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"

namespace atolld {

// The outcome of the last mean that included a party's update.
struct PartyOutcome {
  bool taken = false;  // True if an entry has taken the mean.
  float carried = 1;   // If the mean was taken, the share of the codec's loss that is carried on.
  // True if the mean was too long for any scale, or was refused by a reducer or relay.
  bool refused = false;
};

class PartyResiduals {
 public:
  // `peer` is the id of the peer that hosts the parties. `spec` must have passed CheckGenesis.
  PartyResiduals(Files& files, std::string dir, std::string peer, const v1::RunSpec& spec);

  // Removes the files that an earlier process of this peer has left. Called once, before the other
  // functions.
  absl::Status Clear();

  // Settles the party's residual by the outcome of its last update, then replaces `update`, the
  // party's update for the entry `version`, by q (see above). A residual that would make the update
  // infinite or NaN is dropped. Fails if the update is not finite or the files cannot be used;
  // `update` must then not be averaged.
  absl::Status Apply(uint32_t party, const PartyOutcome& last, uint64_t version,
                     absl::Span<float> update);

 private:
  std::string Path(uint32_t party) const;
  absl::Status Settle(uint32_t party, const PartyOutcome& last);
  absl::Status Scale(const std::string& path, float share);
  absl::Status Add(const std::string& path, absl::Span<float> update);
  absl::Status Write(const std::string& path, absl::Span<const float> values);

  Files& files_;
  const std::string dir_;
  const std::string peer_;
  const v1::RunSpec spec_;
};

}  // namespace atolld
