// Adoption: the peers that hold a longer history than the coordinator's store, and whom of them to
// ask for it.
//
// A store that was restored from a copy, or lost, is behind its peers. Whoever says that it holds a
// later version makes a claim; the one with the longest is asked for the headers, batch by batch,
// until the history reaches every claim or nobody can help. A claim of a peer whose session broke
// stands until the peer is dead: to go on without it would fork the history. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "membership/run/roster.h"

namespace atolld {

class Adoption {
 public:
  struct Claim {
    uint64_t version = 0;
    std::string header_digest;  // of that version
    // what the peer trains on: leased by a book that is lost
    std::vector<v1::SampleRange> samples;
    bool helpless = false;  // it no longer has the next headers
  };

  void Add(const std::string& peer, uint64_t version, const std::string& header_digest);
  void SetSamples(const std::string& peer, std::vector<v1::SampleRange> samples);
  void Remove(const std::string& peer);

  const std::map<std::string, Claim>& claims() const { return claims_; }
  bool empty() const { return claims_.empty(); }
  uint64_t longest() const;  // version; 0: no claim

  // The peer that was asked and has not answered; "" none.
  const std::string& asked() const { return asked_; }

  // Whom to ask now: the longest claim of a connected peer that is not helpless, the first in
  // roster order among equals. "": nobody, or somebody was asked already. A peer that was asked
  // longer than `patience` ago comes last from then on.
  std::string Choose(absl::Time now, absl::Duration patience, const Roster& roster);
  void Ask(absl::Time now, const std::string& peer);
  // What was asked is answered, or will not be: the peer's session broke.
  void Answered(const std::string& peer);
  void SetHelpless(const std::string& peer);
  // Nobody can help: each claimant has said that it lacks what comes next.
  bool hopeless() const;

  int silences(const std::string& peer) const;         // how often it was asked in vain
  absl::Time Deadline(absl::Duration patience) const;  // InfiniteFuture: nobody was asked

 private:
  std::map<std::string, Claim> claims_;
  std::map<std::string, int> silences_;
  std::string asked_;
  absl::Time asked_at_;
};

}  // namespace atolld
