// Ledger: keeps the record of a run: its spec, epoch and control, the chain of its history, its
// seal, and the results of its rounds and evaluations.
//
// Law: every change is also written to the RunUpdate that the caller passes, and no peer is
// informed of it before that update is durable. The chain only grows: a header is appended by a
// commit of this process, or is adopted from a peer if the store is behind. The class has more than
// forty methods because the record is read, checked and changed only through it: each part of the
// record, each claim that is checked and each change has a method. Pure. Used by one thread.
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
  // `stored` must have a spec, and its epoch must already be the new one. `settings` must outlive
  // the ledger.
  Ledger(const RunSettings& settings, const StoredRun& stored, absl::Time now);

  const v1::RunSpec& spec() const { return spec_; }
  uint64_t epoch() const { return epoch_; }
  const RunControl& control() const { return control_; }
  const std::optional<v1::Genesis>& genesis() const { return genesis_; }
  // The header of version().
  const std::optional<v1::EntryHeader>& header() const { return header_; }
  const std::optional<v1::Seal>& seal() const { return seal_; }
  const PrivacyBudget& budget() const { return budget_; }
  PrivacyBudget& budget() { return budget_; }
  const std::vector<v1::RoundRecord>& rounds() const { return rounds_; }
  const std::vector<v1::EvaluationRecord>& evaluations() const { return evaluations_; }

  uint64_t version() const { return history_.version(); }
  // Returns the digest of the header of this version (of the genesis for version 0); without an
  // argument, the digest for the newest version. There must be a genesis. Returns "" if the store
  // lacks the header, because no peer had it any more when the history was adopted.
  std::string digest(uint64_t version) const {
    return version == 0 ? genesis_digest_ : history_.digest(version);
  }
  std::string digest() const { return digest(version()); }
  const HistorySummary& history() const { return history_; }
  // Returns true if this process has committed nothing since the history was loaded or adopted.
  bool only_recovered() const { return version() == recovered_; }
  // Returns the version that is expected to be sealed. After an order to stop, the current exchange
  // is still committed unless it fails.
  uint64_t LastVersion(bool exchanging) const;
  bool Evaluated(uint64_t version) const;
  uint64_t Tokens() const;               // the tokens of all rounds
  double Elapsed(absl::Time now) const;  // the seconds of training in all epochs
  void NoteTraining(absl::Time now);     // called while a peer trains
  // Returns the Welcome message, which informs a peer of the run's record.
  v1::CoordinatorMessage Welcome() const;
  // Sets the ledger's part of an operator's status.
  void Show(absl::Time now, v1::RunStatus* status) const;
  // Returns what each contributor has contributed to the run, beginning with the contributor after
  // `request.after`.
  v1::ListAccountsResponse Accounts(const v1::ListAccountsRequest& request) const;
  // Issues a receipt for what this peer has contributed so far. Fails with NOT_FOUND if it has
  // contributed nothing or no peer has that name. Fails with FAILED_PRECONDITION if the run's
  // history is unsigned, because there is no key to sign the receipt.
  absl::StatusOr<v1::Receipt> IssueReceipt(const std::string& peer, absl::Time wall) const;
  // Sets, for each peer in the status, its share in the newest header's mean.
  void ShowShares(v1::RunStatus* status) const;
  // Sets the time at which the last version will be committed at the pace of the recent rounds.
  // Sets nothing if that time is unknown, if the last version is reached, or if the status says
  // that the run waits.
  void ShowEnd(absl::Time now, absl::Time wall, bool exchanging, v1::RunStatus* status) const;

  // Checks the version and digest that a peer claims to hold. Also returns OK if the version is
  // later than this ledger's and may be adopted. Fails with FAILED_PRECONDITION if it belongs to
  // another history.
  absl::Status CheckChain(uint64_t version, const std::string& digest) const;
  bool Ahead(uint64_t version) const;  // true if it is later than this ledger's version
  // Returns true if this is a version 0 that was also made but is not the run's. Its holder must
  // drop it and fetch the run's.
  bool OtherVersionZero(uint64_t version, const std::string& digest) const {
    return genesis_ && version == 0 && genesis_digest_ != digest;
  }
  bool is_signed() const { return settings_.check_signed != nullptr; }
  // Fails with FAILED_PRECONDITION if the genesis does not belong to this history.
  absl::Status CheckGenesis(const v1::Genesis& genesis) const;
  // Check the proof of a peer's claim. CheckClaim checks that the peer holds a version later than
  // this ledger's; the proof is that version's `header`. CheckEpoch checks the epoch that the
  // peer's Hello names. They fail with INVALID_ARGUMENT if the proof is not valid. In an unsigned
  // history every claim is believed.
  absl::Status CheckClaim(uint64_t version, const std::string& digest,
                          const v1::EntryHeader& header) const;
  absl::Status CheckEpoch(const v1::Hello& hello) const;
  // Returns true if the store is older than the run: the Hello's epoch, which has been checked,
  // belongs to another process of the coordinator, and this process's epoch is not higher.
  // `first_word` has the meaning of Members::Joined::first_word.
  bool Outgrown(const v1::Hello& hello, bool first_word) const;
  // Checks the headers that follow the ledger's version. `genesis` is the run's own or, if it has
  // none, the one that came with the headers. `leases` is the book at the ledger's version and is
  // updated to the last header. If the history is signed, the first header may be later than the
  // next version, because its signature proves it; samples that the missing headers may have spent
  // become lost.
  absl::Status CheckNext(const v1::Genesis& genesis, const v1::Headers& headers,
                         LeaseBook* leases) const;

  void BeginEpoch(absl::Time now, RunUpdate* update);
  void OutgrowEpoch(uint64_t heard) { epoch_ = heard; }  // must be followed by BeginEpoch
  // Carries out an operator's order to pause, resume or stop the run; does nothing if the run is
  // already in that state. Fails with FAILED_PRECONDITION if it is too late, or if there is nothing
  // to seal yet. `exchanging` is true while an exchange is under way.
  absl::Status Control(RunControl::State wanted, const std::string& reason, bool exchanging,
                       RunOutput* out);

  // Ends the run at its newest version if RunSettings::stop_when asks for it, or if another round
  // could spend more than the run's privacy budget. Called after every event; does something only
  // if there is a new round or evaluation.
  void StopWhereEnough(absl::Time now, bool exchanging, RunOutput* out);

  void AcceptGenesis(const v1::Genesis& genesis, RunUpdate* update);
  // Called when no peer gives version 0 to the others, so that another version 0 must replace it.
  // The store keeps the old one until the new one is accepted. Requires version() = 0.
  void DropGenesis();
  // Commit appends a header that this process has made, after CheckCommit has accepted it; Adopt
  // appends one that came from a peer, which has no record of its round.
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
  std::string genesis_digest_;  // "" if there is no version 0
  HistorySummary history_;
  std::optional<v1::EntryHeader> header_;
  std::optional<v1::Seal> seal_;
  std::vector<v1::RoundRecord> rounds_;
  std::vector<v1::EvaluationRecord> evaluations_;
  // The number of rounds and evaluations when StopWhereEnough last looked at them.
  size_t looked_at_ = 0;
  // The newest version that was loaded or adopted; this process has committed all later ones.
  uint64_t recovered_;
  std::optional<absl::Time> first_train_;  // the first training of this epoch
  double earlier_seconds_ = 0;             // the seconds of training before this process
};

// Returns ": " and the reason, to append to a sentence, or an empty string if the reason is empty.
std::string Because(const std::string& reason);

// Returns the time of a round's exchange in words, for logs and views: "1.23 s (predicted 1.10 s),
// audit 0.20 s". A missing prediction or audit is left out; the text is "-" if the time was not
// measured.
std::string ExchangeTime(const v1::RoundRecord& round);

// Returns a line that says that a round is committed, by which peers (only their number if there
// are more than 32), and how long its exchange took.
std::string CommitLine(const v1::RoundRecord& round, const std::vector<std::string>& by);

}  // namespace atolld
