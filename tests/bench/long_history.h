// LongHistory: the store's updates of a run of many rounds, without running them: signed headers of
// the right shape, round records, evaluations, leases, and the checkpoints between them, all as
// written by the run's own ledger and lease book.
//
// It is what a long run leaves with its coordinator; payloads and states are made up. One thread.
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
  // The run of this config, which gives its id and enough rounds, with `contributors` in each
  // round.
  LongHistory(const Config& config, int contributors, const SigningKey& key);

  // Not copied, because the members refer to each other.
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
