// Error feedback of virtual parties: each loses by the run's codec what a peer of its own would
// lose, and carries it into its next update. (What the codec of slow lines loses beyond that is of
// their mean, and of nobody's update.)
//
//   a = update + decay * residual;  what is averaged: q = Decode(Encode(a))
//   residual of the next time = a - q where an entry has taken the round's mean, else as before
//
// (Error feedback as in compression/error_feedback.h. That a party's update counts at all is told
// only when its peer is next asked to train, so a residual is settled when its party is next
// drawn.) A party's lies in a file of its own in a folder of the peer; none is in memory. They are
// of this life of the daemon alone: which update was taken is not known after a restart, and losing
// a residual is legal. Blocking; one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"

namespace atolld {

class PartyResiduals {
 public:
  // `peer`: whose parties they are. `spec` is one that CheckGenesis passes.
  PartyResiduals(Files& files, std::string dir, std::string peer, const v1::RunSpec& spec);

  // Removes what a former life has left. Once, before the others.
  absl::Status Clear();

  // Settles what the party has lost last (`taken`: an entry has its update), then turns its update
  // of the entry `version` into what is averaged. An error: the update is not finite, or the files
  // cannot be used; `update` is then not to be averaged.
  absl::Status Apply(uint32_t party, bool taken, uint64_t version, absl::Span<float> update);

 private:
  std::string Path(uint32_t party) const;
  absl::Status Settle(uint32_t party, bool taken);
  absl::Status Write(const std::string& path, absl::Span<const float> values);

  Files& files_;
  const std::string dir_;
  const std::string peer_;
  const v1::RunSpec spec_;
};

}  // namespace atolld
