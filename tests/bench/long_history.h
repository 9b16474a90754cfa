// LongHistory: makes the updates that a run of many rounds would write to its store, without
// executing the run. They are signed headers of the right shape, round records, evaluations,
// leases, and the checkpoints between them, all written by the production ledger and lease book.
//  Payloads and states are made up. Used by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/config/config.h"
#include "membership/history/signing_key.h"
#include "membership/run/leases.h"
#include "membership/run/ledger.h"
#include "membership/run/run_output.h"

namespace atolld {

class LongHistory {
 public:
  // Makes the run of this config with `contributors` in each round. The config must give the run's
  // id and enough rounds.
  LongHistory(const Config& config, int contributors, const SigningKey& key);

  // Cannot be copied, because the members refer to each other.
  LongHistory(const LongHistory&) = delete;
  LongHistory& operator=(const LongHistory&) = delete;

  // Returns the first update: the settings, version 0, and the members.
  RunUpdate Begin();
  // Returns the next `rounds` rounds, in one transaction.
  RunUpdate Next(uint64_t rounds);

  const Ledger& ledger() const { return ledger_; }
  const LeaseBook& leases() const { return leases_; }
  const v1::Genesis& genesis() const { return genesis_; }
  v1::EntryHeader MakeHeader();  // Returns the next header, signed; its samples are leased for it.

 private:
  v1::RoundRecord RecordOf(const v1::EntryHeader& header) const;

  const int contributors_;
  const SigningKey key_;
  v1::Genesis genesis_;
  RunSettings settings_;
  Ledger ledger_;
  LeaseBook leases_;
};

}  // namespace atolld
