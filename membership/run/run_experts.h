// RunExperts: the experts of a run whose peers own some each (ExpertsSpec), or the slices of its
// adapters (ModelSpec.lora_slice): who owns which in the present round, and what follows for
// Trains, plans and the status.
//
// In a run without either every function does nothing. What a peer owns is fixed when the first
// Train of a round is sent. PartOwners says who owns what, and for what an update counts: experts
// are assigned here, and of slices each peer tells which it trains. The state is not stored: after
// a restart it follows from the newest header, or peers tell it again. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/plan.pb.h"
#include "membership/experts/part_owners.h"
#include "membership/history/fragment.h"
#include "membership/planning/reduction_plan.h"
#include "membership/run/ledger.h"
#include "membership/run/round.h"

namespace atolld {

class RunExperts {
 public:
  // Sets what the peer owns in this round. Version 0 must exist.
  void Tell(const Ledger& ledger, const Round& round, const Roster& roster, const std::string& peer,
            v1::Train* train);
  // Fails with INVALID_ARGUMENT if the update does not say which experts it was trained on.
  absl::Status Check(const Ledger& ledger, const std::string& peer, const v1::Ready& ready);
  // Sets the experts for which the update of this contributor counts, and the share of the model
  // that it was trained on.
  void Limit(const v1::Ready& ready, ExchangeContributor* contributor) const;
  // Returns the size of the vector of entry `version`, also in a run without experts.
  uint64_t Elements(const Ledger& ledger, uint64_t version);
  // Sets the entry's grid.
  void Fill(const Ledger& ledger, ExchangeTerms* terms);
  // Adds the experts with their owners.
  void Show(v1::RunStatus* status) const;

 private:
  // Returns false if the run has no experts.
  bool Know(const Ledger& ledger);

  std::unique_ptr<PartOwners> owners_;  // null until version 0 exists
  Fragments fragments_;
};

}  // namespace atolld
