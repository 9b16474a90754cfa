#include "membership/run/ledger.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace atolld {

Ledger::Ledger(const RunSettings& settings, const StoredRun& stored, absl::Time now)
    : settings_(settings),
      spec_(*stored.spec),
      epoch_(stored.epoch),
      epoch_began_(now),
      control_(stored.control),
      genesis_(stored.genesis),
      seal_(stored.seal),
      rounds_(stored.rounds),
      evaluations_(stored.evaluations),
      recovered_(stored.headers.size()) {
  if (genesis_) digests_.push_back(settings_.genesis_digest(*genesis_));
  for (const v1::EntryHeader& header : stored.headers) {
    digests_.push_back(settings_.header_digest(header));
  }
  if (!stored.headers.empty()) header_ = stored.headers.back();
  for (const v1::RoundRecord& round : rounds_) {
    earlier_seconds_ = std::max(earlier_seconds_, round.elapsed_seconds());
  }
}

uint64_t Ledger::LastVersion(bool exchanging) const {
  if (!control_.stopping()) return spec_.rounds();
  return version() + (exchanging ? 1 : 0);
}

bool Ledger::Evaluated(uint64_t version) const {
  return std::any_of(
      evaluations_.begin(), evaluations_.end(),
      [&](const v1::EvaluationRecord& record) { return record.version() == version; });
}

uint64_t Ledger::Tokens() const {
  uint64_t tokens = 0;
  for (const v1::RoundRecord& round : rounds_) tokens += round.tokens();
  return tokens;
}

double Ledger::Elapsed(absl::Time now) const {
  return earlier_seconds_ + (first_train_ ? absl::ToDoubleSeconds(now - *first_train_) : 0);
}

void Ledger::NoteTraining(absl::Time now) {
  if (!first_train_) first_train_ = now;
}

v1::CoordinatorMessage Ledger::Welcome() const {
  v1::CoordinatorMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_epoch(epoch_);
  *welcome->mutable_spec() = spec_;
  if (genesis_) *welcome->mutable_genesis() = *genesis_;
  welcome->set_version(version());
  if (header_) *welcome->mutable_header() = *header_;
  if (seal_) *welcome->mutable_seal() = *seal_;
  welcome->set_failure_timeout_milliseconds(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(settings_.failure_timeout)));
  return message;
}

bool Ledger::Ahead(uint64_t version) const {
  return genesis_ ? version > this->version() : version > 0;
}

absl::Status Ledger::MayAdopt(uint64_t version, const std::string& digest) const {
  if (version > spec_.rounds()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it holds version ", version, ", but the run ends at ", spec_.rounds()));
  }
  if (!seal_ && only_recovered()) return absl::OkStatus();
  // Its history left ours at some version that this process, or one before, has committed anew.
  return absl::FailedPreconditionError(
      absl::StrCat("it holds version ", version, " with header ", absl::BytesToHexString(digest),
                   ", but the run's newest is ", this->version(), " with header ",
                   absl::BytesToHexString(digests_.back()), seal_ ? ", and it is sealed" : "",
                   ": two histories; to join this one start it with an empty directory"));
}

absl::Status Ledger::CheckChain(uint64_t version, const std::string& digest) const {
  if (Ahead(version)) return MayAdopt(version, digest);
  if (digests_.empty() || digests_[version] != digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("its version ", version,
                     " is of another history than the run's; start it with an empty directory"));
  }
  return absl::OkStatus();
}

absl::Status Ledger::CheckNext(const v1::Genesis& genesis, const v1::Headers& headers,
                               LeaseBook* leases) const {
  std::string previous = genesis_ ? digests_.back() : settings_.genesis_digest(genesis);
  uint64_t at = version();
  for (const v1::EntryHeader& header : headers.headers()) {
    absl::Status valid = settings_.check_header(genesis, at, previous, header);
    for (const v1::Contributor& contributor : header.contributors()) {
      if (!valid.ok() || contributor.samples_size() == 0) continue;
      const std::vector<v1::SampleRange> spent(contributor.samples().begin(),
                                               contributor.samples().end());
      if (!leases->MarkSpent(spent)) {
        valid = absl::FailedPreconditionError(
            absl::StrCat("entry ", header.version(), ": samples of contributor ",
                         contributor.peer(), " are spent by another entry already"));
      }
    }
    if (!valid.ok()) return valid;
    previous = settings_.header_digest(header);
    ++at;
  }
  return absl::OkStatus();
}

void Ledger::BeginEpoch(absl::Time now, RunUpdate* update) {
  update->epoch = ++epoch_;
  epoch_began_ = now;
}

absl::StatusOr<bool> Ledger::Control(RunControl::State wanted, const std::string& reason,
                                     RunUpdate* update) {
  if (wanted == RunControl::State::kStopping) {
    if (!genesis_) {
      return absl::FailedPreconditionError(
          "the run has no version 0 yet, so there is nothing to seal; end its processes instead");
    }
    if (seal_ || control_.stopping()) return false;
  } else {
    if (seal_) return absl::FailedPreconditionError("the run is sealed");
    if (control_.stopping()) {
      return absl::FailedPreconditionError(
          wanted == RunControl::State::kPaused
              ? "the run is being stopped"
              : "the run is being stopped, and that cannot be undone");
    }
    if (control_.state == wanted) return false;
  }
  control_ = {wanted, reason};
  update->control = control_;
  return true;
}

void Ledger::AcceptGenesis(const v1::Genesis& genesis, RunUpdate* update) {
  genesis_ = genesis;
  spec_ = genesis.spec();
  digests_.push_back(settings_.genesis_digest(genesis));
  update->genesis = genesis;
  update->spec = spec_;
}

absl::Status Ledger::CheckCommit(const v1::EntryHeader& header) const {
  return settings_.check_header(*genesis_, version(), digests_.back(), header);
}

void Ledger::Commit(const v1::EntryHeader& header, const v1::RoundRecord& record,
                    RunUpdate* update) {
  digests_.push_back(settings_.header_digest(header));
  header_ = header;
  rounds_.push_back(record);
  update->headers.push_back(header);
  update->rounds.push_back(record);
}

void Ledger::Adopt(const v1::EntryHeader& header, RunUpdate* update) {
  v1::RoundRecord record;
  record.set_version(header.version());
  record.set_contributors(static_cast<uint32_t>(header.contributors_size()));
  record.set_elapsed_seconds(earlier_seconds_);  // no later than anything that follows
  uint64_t tokens = 0;
  for (const v1::Contributor& contributor : header.contributors()) tokens += contributor.tokens();
  record.set_tokens(tokens);
  Commit(header, record, update);
  recovered_ = version();
}

void Ledger::AddEvaluation(const v1::EvaluationRecord& record, RunUpdate* update) {
  evaluations_.push_back(record);
  update->evaluations.push_back(record);
}

void Ledger::SetSeal(const v1::Seal& seal, RunUpdate* update) {
  seal_ = seal;
  update->seal = seal;
}

// -----------------------------------------------------------------------------------------------

std::string ExchangeTime(const v1::RoundRecord& round) {
  if (round.exchange_seconds() <= 0) return "-";
  std::string text = absl::StrFormat("%.2f s", round.exchange_seconds());
  if (round.predicted_seconds() > 0) {
    absl::StrAppendFormat(&text, " (predicted %.2f s)", round.predicted_seconds());
  }
  if (round.audit_seconds() > 0)
    absl::StrAppendFormat(&text, ", audit %.2f s", round.audit_seconds());
  return text;
}

}  // namespace atolld
