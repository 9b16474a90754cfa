// OffenderRule: who is left out of a round for what its updates of past rounds were.
//
// A single long update is an accident (a bad batch, a restarted optimiser) and is clipped; a peer
// whose updates are refused or outsized again and again is left out until enough rounds have passed
// since. What it has to know of a peer is one 64-bit record, so it fits a store and a message and
// two coordinators agree on it. Pure functions, any thread.
#pragma once

#include <cstdint>

namespace atolld {

struct OffenderRule {
  uint32_t offences = 3;  // a peer with so many in the last `rounds` is left out; 0: nobody ever is
  uint32_t rounds = 16;   // at most 64
  double outsized = 0;    // an update longer than this many usual ones is an offence; 0: none is
};

// A peer's last 64 rounds, the newest in the lowest bit; 1: it offended. A new peer's is 0.
using OffenceRecord = uint64_t;

// Whether an update of that length is an offence. While the usual one is 0 (all updates were)
// nothing is outsized. A length that is not a number is an offence always.
bool IsOutsized(const OffenderRule& rule, double length, double usual);

// The record after one more committed round: one in which the peer offended, or did not, be it that
// it was left out or away. So who is left out comes back once its offences are old.
OffenceRecord AfterRound(OffenceRecord record, bool offended);

uint32_t Offences(const OffenderRule& rule, OffenceRecord record);

bool IsLeftOut(const OffenderRule& rule, OffenceRecord record);

// In how many rounds without another offence it is let in again; 0 if it is not left out.
uint32_t RoundsUntilLetIn(const OffenderRule& rule, OffenceRecord record);

}  // namespace atolld
