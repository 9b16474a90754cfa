// MaskedAttempts: controls the masks of a run's exchanges. It decides when an attempt at a masked
// sum begins and with which parties, which contributors its exchange has, and when votes for it
// count. MaskedSums carries out the steps.
//
//   Begin --> OnMessage of the parties --> kMasked: the exchange begins, as KeepMasked leaves it
//   --> their sums --> kUnmasked: they vote, as in any exchange --> End with the commit
//
// After a kDiscarded the caller gives the exchange up. The next attempt begins at least half a
// failure_timeout later: by then a peer that died is known to be gone, or is back. If an attempt
// failed because of false shares, later attempts at the same version leave out the parties that may
// be to blame, as long as enough are left. A party that is certainly to blame is recorded as if its
// update had been refused. Once the contributors of a sum are announced the sum may be unmasked; if
// no entry results, its updates must then be trained anew. One version therefore has at most
// kMostSumsOfAVersion such sums. Anything else that ends the exchange also ends its masks (End). In
// a run without masks every call does nothing. Pure. Used by one thread.
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
#include "membership/run/ballot.h"
#include "membership/run/masked_sums.h"
#include "membership/run/members.h"
#include "membership/run/run_output.h"
#include "membership/run/training.h"
#include "membership/trust/update_judge.h"

namespace atolld {

class MaskedAttempts {
 public:
  using News = MaskedSums::News;

  // `judge` must outlive this object.
  MaskedAttempts(const v1::RunSpec& spec, absl::Duration failure_timeout, UpdateJudge* judge);

  bool on() const { return on_; }  // true if the run uses masks
  bool under_way() const { return sums_.under_way(); }
  // Returns true for a party that is masking or has masked its update, which must therefore not
  // change.
  bool Holds(const std::string& peer) const { return parties_.count(peer) > 0; }
  // True while the exchange waits for the masks to be taken off. The answers of the parties then
  // have a separate deadline.
  bool frozen() const { return sums_.frozen(); }
  // Returns false while the masks are on, because no peer can then know the mean to vote for.
  bool VotesCount() const { return !on_ || sums_.unmasked(); }
  // Returns the time at which OnDeadline must be called or, between attempts, at which the next one
  // may begin.
  absl::Time Deadline() const;
  // Returns in words which parties are waited for; empty if there are none.
  std::string WaitingFor() const { return sums_.WaitingFor(); }

  // Fails with FAILED_PRECONDITION if `ready` updates are fewer than a sum needs, if the last
  // attempt was discarded a moment ago, or if this version may have no more sums. The message gives
  // the reason.
  absl::Status MayBegin(absl::Time now, size_t ready, size_t needed) const;
  // Begins an attempt with these contributors, whose updates are ready in `round`.
  News Begin(absl::Time now, uint64_t epoch, const std::vector<ExchangeContributor>& contributors,
             Round* round, const Members& members, RunOutput* out);
  // Handles every message except sums. Fails with INVALID_ARGUMENT if keys or a masked update are
  // not signed with the key in the peer's Hello. Once a masked update has arrived, its root is in
  // the peer's Ready.
  absl::StatusOr<News> OnMessage(absl::Time now, const std::string& peer,
                                 const v1::MaskFromParty& message, Round* round,
                                 const Members& members, RunOutput* out);
  // Handles a sum of the current exchange.
  News OnSum(absl::Time now, const std::string& peer, const v1::MaskedSum& sum, Ballot* exchange,
             const Members& members, RunOutput* out);
  // Called when the peer died, left, or restarted as a process that does not know its masks.
  News OnGone(absl::Time now, const std::string& peer, const Members& members, RunOutput* out);
  News OnDeadline(absl::Time now, const Members& members, RunOutput* out);
  // Keeps only the contributors that have masked their updates. Fails with FAILED_PRECONDITION if
  // they are too few.
  absl::Status KeepMasked(size_t quorum, std::vector<ExchangeContributor>* contributors) const;
  // Returns the peers that carry the exchange out and have not sent their sum.
  std::vector<std::string> WithoutSum(const Ballot& exchange) const {
    return sums_.WithoutSum(exchange.Voters(), exchange.plan().revision());
  }
  // Called when the exchange of the masked updates cannot begin. Discards the attempt.
  News GiveUp(absl::Time now, const std::string& why, const Members& members, RunOutput* out);
  // Called when the same process of the peer came back. Sends it the messages of the attempt again.
  void Resend(const std::string& peer, const Members& members, RunOutput* out) const;
  void End(const Members& members, RunOutput* out);

 private:
  std::set<std::string> LeftOut(const std::vector<ExchangeContributor>& contributors,
                                size_t needed) const;
  absl::Status CheckUpdate(const std::string& peer, const v1::MaskedUpdate& update,
                           const Members& members) const;
  News Take(absl::Time now, MaskedSums::Output output, const Members& members, RunOutput* out);

  const bool on_;
  const std::string run_id_;
  const absl::Duration failure_timeout_;
  UpdateJudge* const judge_;
  MaskedSums sums_;
  uint64_t version_ = 0;  // the version of the attempt
  uint32_t opened_ = 0;   // the sums at that version whose contributors were announced
  std::vector<ShareSuspect> suspects_;  // the suspects of discarded attempts at that version
  std::set<std::string> parties_;       // the attempt's parties that are not gone
  absl::Time not_before_ = absl::InfinitePast();
};

}  // namespace atolld
