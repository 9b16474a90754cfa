// MaskedExchanges: the masks of a run's exchanges: when an attempt at a masked sum begins and with
// whom, of whom its exchange is, and when the votes of that count. The steps are MaskedSums'.
//
//   Begin --> OnMessage of the parties --> kMasked: the exchange begins, of those KeepMasked keeps
//   --> their sums --> kUnmasked: they vote, as in any exchange --> End with the commit
//
// After a kDiscarded the caller gives the exchange up, and the next attempt begins half a
// failure_timeout later at the earliest: whoever has died is known to be gone by then, or is back.
// Whatever else ends the exchange ends its masks (End). Of a run without masks every call does
// nothing. Pure; one thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/masking.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/reduction_plan.h"
#include "membership/run/exchange_round.h"
#include "membership/run/masked_sums.h"
#include "membership/run/members.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"

namespace atolld {

class MaskedExchanges {
 public:
  using News = MaskedSums::News;

  MaskedExchanges(const v1::RunSpec& spec, absl::Duration failure_timeout);

  bool on() const { return on_; }  // the run has masks
  bool under_way() const { return sums_.under_way(); }
  // A party whose update is to stay as it is, since it masks it or has.
  bool Holds(const std::string& peer) const { return parties_.count(peer) > 0; }
  // The exchange waits for the masks to come off, and those who are to say so have their own time.
  bool frozen() const { return sums_.frozen(); }
  // Before the masks are off nobody can know what to vote for.
  bool VotesCount() const { return !on_ || sums_.unmasked(); }
  // When OnDeadline is due, or the next attempt may begin: for the caller's clock.
  absl::Time Deadline() const;
  std::string WaitingFor() const { return sums_.WaitingFor(); }  // in words; empty: for nobody

  // FAILED_PRECONDITION, in words: so many updates that are ready are too few for a sum, or the
  // last attempt was discarded a moment ago.
  absl::Status MayBegin(absl::Time now, size_t ready, size_t quorum) const;
  // With these, whose updates stand in the round.
  News Begin(absl::Time now, uint64_t epoch, const std::vector<ExchangeContributor>& contributors,
             Round* round, const Members& members, RunOutput* out);
  // All but sums. INVALID_ARGUMENT: keys that are not signed by the key of its Hello, or an update
  // that it has not signed. A root stands in the peer's Ready from then on.
  absl::StatusOr<News> OnMessage(absl::Time now, const std::string& peer,
                                 const v1::MaskFromParty& message, Round* round,
                                 const Members& members, RunOutput* out);
  // Of the exchange that is under way.
  News OnSum(absl::Time now, const std::string& peer, const v1::MaskedSum& sum,
             ExchangeRound* exchange, const Members& members, RunOutput* out);
  // It died or left, or has another process, which knows nothing of its masks.
  News OnGone(absl::Time now, const std::string& peer, const Members& members, RunOutput* out);
  News OnDeadline(absl::Time now, const Members& members, RunOutput* out);
  // Leaves those that have masked their updates. FAILED_PRECONDITION: that are too few.
  absl::Status KeepMasked(size_t quorum, std::vector<ExchangeContributor>* contributors) const;
  // Those who carry the exchange out and have not said what they came to.
  std::vector<std::string> WithoutSum(const ExchangeRound& exchange) const {
    return sums_.WithoutSum(exchange.Voters(), exchange.plan().revision());
  }
  // The exchange of these masks cannot begin.
  News GiveUp(absl::Time now, const std::string& why, const Members& members, RunOutput* out);
  // The same process came back: it is told again what it was told.
  void Resend(const std::string& peer, const Members& members, RunOutput* out) const;
  void End(const Members& members, RunOutput* out);

 private:
  absl::Status CheckUpdate(const std::string& peer, const v1::MaskedUpdate& update,
                           const Members& members) const;
  News Take(absl::Time now, MaskedSums::Output output, const Members& members, RunOutput* out);

  const bool on_;
  const std::string run_id_;
  const uint32_t threshold_;  // the run's own; 0: what the number of parties asks for
  const absl::Duration failure_timeout_;
  MaskedSums sums_;
  uint64_t version_ = 0;           // of the attempt
  std::set<std::string> parties_;  // of it, less those who are gone
  absl::Time not_before_ = absl::InfinitePast();
};

}  // namespace atolld
