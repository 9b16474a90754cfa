// Adoption: the peers that hold a longer history than the coordinator's store, and whom of them to
// ask for it.
//
// A store that was restored from a copy, or lost, is behind its peers. Whoever says that it holds a
// later version makes a claim; the one with the longest is asked for the headers, batch by batch,
// until the history reaches every claim or nobody can help. Where all of them have lost the next
// headers, a signed history goes on with the oldest one that any of them still has. Whoever is
// asked and does not answer, or comes and goes instead, is believed so often and no more. A claim
// of a peer whose session broke stands until the peer is dead: to go on without it would fork the
// history. Pure; one thread.
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
    std::string header_digest;  // of that version
    HeldTraining held;          // what the peer trains on was leased by a book that is lost
    bool helpless = false;      // it no longer has the next headers
    uint64_t oldest = 0;        // then: the oldest header that it has; 0: it has told none
  };

  struct Refusal {
    std::string peer;
    absl::Status why;
  };
  // A claimant whose version the history has come to.
  struct Reached {
    std::string peer;
    HeldTraining held;
    uint64_t version = 0;
    absl::Status fits;  // FAILED_PRECONDITION: its history is another
  };

  void Add(const std::string& peer, uint64_t version, const std::string& header_digest);
  void SetTraining(const v1::Hello& hello);  // of one that has a claim
  void Remove(const std::string& peer);

  // FAILED_PRECONDITION: it was asked in vain too often.
  absl::Status MayClaim(const std::string& peer) const;
  bool empty() const { return claims_.empty(); }

  // Goes on as far as it can by now: asks the next peer for headers, and says in `reason` what is
  // waited for. The longest claim of a connected peer that is not helpless is asked, the first in
  // roster order among equals; one that was asked longer than `patience` ago comes last from then
  // on. Not empty(). Returns those that are to be refused, since nobody can help them, or since
  // they do not help: once they are removed, it is to be called again.
  std::vector<Refusal> Advance(absl::Time now, absl::Duration patience, const Ledger& ledger,
                               const Members& members, RunOutput* out, std::string* reason);
  // What a peer tells that was asked. True: these are the next headers, to be recorded now, and
  // `leases` was brought to them. False: nothing follows. Other codes: it lies.
  absl::StatusOr<bool> OnHeaders(const std::string& peer, const v1::Headers& headers,
                                 const Ledger& ledger, LeaseBook* leases, RunOutput* out);
  // Removes those claims that the ledger has come to.
  std::vector<Reached> TakeReached(const Ledger& ledger);
  // The peer's session broke: what it was asked will not be answered.
  void Broke(const std::string& peer);
  // Headers that it told were recorded since this was asked last: the peers are to be told.
  bool TakeAdopted() { return std::exchange(adopted_, false); }

  absl::Time Deadline(absl::Duration patience) const;  // InfiniteFuture: nobody was asked

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
  void Drop(int weight);  // what was asked will not be answered
  std::vector<Refusal> RefuseAll(uint64_t version) const;

  std::map<std::string, Claim> claims_;
  std::map<std::string, int> silences_;  // of all lives; what each time in vain weighs
  std::string asked_;                    // and has not answered; "": nobody
  absl::Time asked_at_;
  uint64_t asked_first_ = 0;  // the header from which on it was asked
  bool adopted_ = false;
};

}  // namespace atolld
