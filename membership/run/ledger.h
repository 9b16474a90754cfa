// Ledger: what is recorded of a run: its spec, epoch and control, the chain of its history, its
// seal, and what its rounds and evaluations came to.
//
// Law: whatever changes here stands in the RunUpdate that the call was given as well, and nobody is
// told of it before that update is durable. The chain only grows: a header is appended by a commit
// of this process, or adopted from a peer where the store is behind. Pure; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/checkpoint.h"
#include "membership/privacy/privacy_budget.h"
#include "membership/run/leases.h"
#include "membership/run/run_output.h"

namespace atolld {

class Ledger {
 public:
  // `stored` has a spec, and its epoch is already the new one. `settings` outlives the ledger.
  Ledger(const RunSettings& settings, const StoredRun& stored, absl::Time now);

  const v1::RunSpec& spec() const { return spec_; }
  uint64_t epoch() const { return epoch_; }
  const RunControl& control() const { return control_; }
  const std::optional<v1::Genesis>& genesis() const { return genesis_; }
  const std::optional<v1::EntryHeader>& header() const { return header_; }  // of version()
  const std::optional<v1::Seal>& seal() const { return seal_; }
  const PrivacyBudget& budget() const { return budget_; }
  const std::vector<v1::RoundRecord>& rounds() const { return rounds_; }
  const std::vector<v1::EvaluationRecord>& evaluations() const { return evaluations_; }

  uint64_t version() const { return history_.version(); }
  // Of the header of this version, the genesis' for version 0; without one, the newest's. There is
  // a genesis. "": the store has not got that header, since no peer had it any more.
  std::string digest(uint64_t version) const {
    return version == 0 ? genesis_digest_ : history_.digest(version);
  }
  std::string digest() const { return digest(version()); }
  const HistorySummary& history() const { return history_; }
  // This process has committed nothing since the history was loaded or adopted.
  bool only_recovered() const { return version() == recovered_; }
  // The one that is sealed, as far as is known now. What is being exchanged is still committed
  // after a stop, unless that fails.
  uint64_t LastVersion(bool exchanging) const;
  bool Evaluated(uint64_t version) const;
  uint64_t Tokens() const;                 // of all rounds
  double Elapsed(absl::Time now) const;    // seconds of training, all epochs together
  void NoteTraining(absl::Time now);       // somebody trains now
  v1::CoordinatorMessage Welcome() const;  // what a peer is told of all this
  void Show(absl::Time now, v1::RunStatus* status) const;  // and an operator
  // What its contributors have given, from the one after `request.after` on.
  v1::ListAccountsResponse Accounts(const v1::ListAccountsRequest& request) const;
  // For what this peer has given so far. NOT_FOUND: nothing, or nobody has that name.
  // FAILED_PRECONDITION: the run's history is unsigned, so nobody can vouch for it.
  absl::StatusOr<v1::Receipt> IssueReceipt(const std::string& peer, absl::Time wall) const;
  // Whose weight the newest header's mean has, to the peers that the status names.
  void ShowShares(v1::RunStatus* status) const;
  // When the last version is committed at the pace of the recent rounds; nothing where that is not
  // known, nothing is left, or the status says that the run waits.
  void ShowEnd(absl::Time now, absl::Time wall, bool exchanging, v1::RunStatus* status) const;

  // What somebody holds who says so. OK also where it is ahead of what is known here, and may be
  // adopted. FAILED_PRECONDITION: it is of another history.
  absl::Status CheckChain(uint64_t version, const std::string& digest) const;
  bool Ahead(uint64_t version) const;  // beyond what is known here
  // A version 0 that is not the run's: it was made as well, and is dropped for the run's.
  bool OtherVersionZero(uint64_t version, const std::string& digest) const {
    return genesis_ && version == 0 && genesis_digest_ != digest;
  }
  bool is_signed() const { return settings_.check_signed != nullptr; }
  // FAILED_PRECONDITION: it is not this history's.
  absl::Status CheckGenesis(const v1::Genesis& genesis) const;
  // Whether what somebody says of itself stands on more than its word: that it holds a version that
  // is ahead of what is known here, with `header`, its own; and the epoch that its Hello names.
  // INVALID_ARGUMENT: it does not. A history that nobody signs is believed.
  absl::Status CheckClaim(uint64_t version, const std::string& digest,
                          const v1::EntryHeader& header) const;
  absl::Status CheckEpoch(const v1::Hello& hello) const;
  // The Hello's epoch, which stands, is of another life of the coordinator, and this one has come
  // no further: the store is older than the run. `first_word`: as Members::Joined's.
  bool Outgrown(const v1::Hello& hello, bool first_word) const;
  // The same of the next headers, all of them or nothing: `genesis` is the run's own, or the one
  // that they come with. `leases`, of the ledger's version, is brought to the last of them.
  // The first may be later than the next one if the history is signed: its signature then vouches
  // for it, and what headers between may have spent is lost to the leases.
  absl::Status CheckNext(const v1::Genesis& genesis, const v1::Headers& headers,
                         LeaseBook* leases) const;

  void BeginEpoch(absl::Time now, RunUpdate* update);
  void OutgrowEpoch(uint64_t heard) { epoch_ = heard; }  // a BeginEpoch follows
  // What an operator asks of the whole run; nothing where it is so already. FAILED_PRECONDITION:
  // too late, or there is nothing to seal yet. `exchanging`: an exchange is under way.
  absl::Status Control(RunControl::State wanted, const std::string& reason, bool exchanging,
                       RunOutput* out);

  // Ends the run at its newest version where RunSettings::stop_when wants it, or where another
  // round could spend more than its privacy's budget: asked after every event, it looks when a
  // round or an evaluation is new.
  void StopWhereEnough(absl::Time now, bool exchanging, RunOutput* out);

  void AcceptGenesis(const v1::Genesis& genesis, RunUpdate* update);
  // Nobody gives version 0, and another is to take its place. The store has it until that one is
  // accepted. version() is 0.
  void DropGenesis();
  // The next header. Committed here, or adopted from a peer, of which less is known.
  absl::Status CheckCommit(const v1::EntryHeader& header) const;
  void Commit(const v1::EntryHeader& header, const v1::RoundRecord& record, RunUpdate* update);
  void Adopt(const v1::EntryHeader& header, RunUpdate* update);
  void AddEvaluation(const v1::EvaluationRecord& record, RunUpdate* update);
  void SetSeal(const v1::Seal& seal, RunUpdate* update);

 private:
  double SecondsLeft(absl::Time now, bool exchanging) const;
  absl::Status MayAdopt(uint64_t version, const std::string& digest) const;
  absl::Status CheckBeyondGap(const v1::EntryHeader& header) const;
  void LoseSamples(const v1::Headers& headers, LeaseBook* leases) const;
  void MakeCheckpoint(RunUpdate* update);
  std::string EpochProof() const;
  void SayControl(bool exchanging, RunOutput* out) const;
  std::string WhyFarEnough(absl::Time now);

  const RunSettings& settings_;
  v1::RunSpec spec_;
  uint64_t epoch_;
  absl::Time epoch_began_;
  RunControl control_;
  PrivacyBudget budget_;
  std::optional<v1::Genesis> genesis_;
  std::string genesis_digest_;  // "": no version 0
  HistorySummary history_;
  std::optional<v1::EntryHeader> header_;
  std::optional<v1::Seal> seal_;
  std::vector<v1::RoundRecord> rounds_;
  std::vector<v1::EvaluationRecord> evaluations_;
  size_t looked_at_ = 0;  // number of rounds and evaluations that StopWhereEnough knows
  uint64_t recovered_;    // version that was loaded or adopted; later ones this process committed
  std::optional<absl::Time> first_train_;  // of this epoch
  double earlier_seconds_ = 0;             // of the run, before this process
};

// ": reason", after what was done; nothing without one.
std::string Because(const std::string& reason);

// A round in words, for logs and views: "1.23 s (predicted 1.10 s), audit 0.20 s"; without what was
// not predicted or not audited; "-": it was not measured.
std::string ExchangeTime(const v1::RoundRecord& round);

// That a round is committed, by whom (of more than 32 their number), and what it took.
std::string CommitLine(const v1::RoundRecord& round, const std::vector<std::string>& by);

}  // namespace atolld
