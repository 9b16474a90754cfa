// Adoption: records which peers hold a longer history than the coordinator's store, and chooses
// which of them to ask for it.
//
// A store that was lost or restored from a copy is behind its peers. A peer that says that it holds
// a later version makes a claim. The peer that claims the latest version is asked for the headers,
// batch by batch, until the history reaches every claim or no peer can help. If all of them have
// lost the next headers, a signed history continues with the oldest header that any of them still
// has. A peer that does not answer a request, or reconnects instead, is believed only a limited
// number of times. If a peer's session breaks, its claim remains until the peer is dead, because
// continuing without it would fork the history. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/leases.h"
#include "membership/run/ledger.h"
#include "membership/run/members.h"
#include "membership/run/roster.h"
#include "membership/run/run_output.h"
#include "membership/run/training_state.h"

namespace atolld {

class Adoption {
 public:
  struct Claim {
    uint64_t version = 0;
    std::string header_digest;  // the digest of that version's header
    // The training that the peer holds. The lease book that recorded it is lost.
    HeldTraining held;
    bool helpless = false;  // true if the peer no longer has the next headers
    // If helpless: the version of the oldest header that the peer has, or 0 if it named none.
    uint64_t oldest = 0;
  };

  struct Refusal {
    std::string peer;
    absl::Status why;
  };
  // A peer whose claim the history has reached.
  struct Reached {
    std::string peer;
    HeldTraining held;
    uint64_t version = 0;
    absl::Status fits;  // FAILED_PRECONDITION if the peer has another history
  };

  void Add(const std::string& peer, uint64_t version, const std::string& header_digest);
  void SetTraining(const v1::Hello& hello);  // the Hello's peer must have a claim
  void Remove(const std::string& peer);

  // Fails with FAILED_PRECONDITION if the peer has failed to answer too often.
  absl::Status MayClaim(const std::string& peer) const;
  bool empty() const { return claims_.empty(); }

  // Asks the next peer for headers if no request is open, and sets `reason` to what is waited for.
  // Among the connected peers that are not helpless, it asks the one that claims the latest
  // version, and the first in roster order among equals. A peer that has not answered within
  // `patience` is asked only after all others from then on. Requires !empty(). Returns the peers
  // that must be refused, because no peer has the headers that their claims need, or because they
  // do not answer. The caller removes them and calls the function again.
  std::vector<Refusal> Advance(absl::Time now, absl::Duration patience, const Ledger& ledger,
                               const Members& members, RunOutput* out, std::string* reason);
  // Handles the answer of a peer that was asked. Returns true if these are the next headers, which
  // the caller must record now; `leases` has been updated to them. Returns false if there is
  // nothing to record. Fails if the peer's answer proves that it lies.
  absl::StatusOr<bool> OnHeaders(const std::string& peer, const v1::Headers& headers,
                                 const Ledger& ledger, LeaseBook* leases, RunOutput* out);
  // Removes and returns the claims that the ledger has reached.
  std::vector<Reached> TakeReached(const Ledger& ledger);
  // Called when the peer's session broke, so that a request to it will not be answered.
  void Broke(const std::string& peer);
  // Returns true if headers from peers were recorded since the last call. All peers must then be
  // sent a new Welcome.
  bool TakeAdopted() { return std::exchange(adopted_, false); }

  // Returns when the open request becomes overdue, or InfiniteFuture if there is none.
  absl::Time Deadline(absl::Duration patience) const;

 private:
  std::vector<Refusal> AskBeyondGap(absl::Time now, absl::Duration patience, const Ledger& ledger,
                                    const Members& members, RunOutput* out);
  void Ask(absl::Time now, const std::string& peer, uint64_t first, bool genesis,
           const Members& members, RunOutput* out);
  void NoteHelpless(const std::string& peer, const v1::Headers& headers, uint64_t wanted,
                    RunOutput* out);
  std::string Choose(absl::Time now, absl::Duration patience, const Roster& roster);
  int Silences(const std::string& peer) const;
  void Answered(const std::string& peer);
  // Ends the open request, which failed, and adds to its peer's silences.
  void Drop(int weight);
  std::vector<Refusal> RefuseAll(uint64_t version) const;

  std::map<std::string, Claim> claims_;
  // The weighted number of each peer's failures to answer, including those of its former processes.
  std::map<std::string, int> silences_;
  // The peer that was asked and has not answered; "" if there is none.
  std::string asked_;
  absl::Time asked_at_;
  uint64_t asked_first_ = 0;  // the first header that it was asked for
  bool adopted_ = false;
};

}  // namespace atolld
