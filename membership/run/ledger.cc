#include "membership/run/ledger.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/planted_bug.h"
#include "compression/base/words.h"
#include "membership/history/receipt.h"
#include "membership/run/admission.h"
#include "membership/run/participation.h"

namespace atolld {
namespace {

// The pace of a run is that of its last rounds, because peers come and go.
constexpr size_t kPaceRounds = 8;
constexpr uint32_t kMostAccounts = 1000;  // the most accounts in one answer

constexpr double kAnyMoment = 1;  // seconds

}  // namespace

std::string Because(const std::string& reason) {
  return reason.empty() ? "" : absl::StrCat(": ", reason);
}

Ledger::Ledger(const RunSettings& settings, const StoredRun& stored, absl::Time now)
    : settings_(settings),
      spec_(*stored.spec),
      epoch_(stored.epoch),
      epoch_began_(now),
      control_(stored.control),
      budget_(spec_.privacy(), Participation(spec_).Fewest(settings.round.quorum)),
      genesis_(stored.genesis),
      history_(stored.checkpoint),
      seal_(stored.seal),
      rounds_(stored.rounds),
      evaluations_(stored.evaluations),
      recovered_(stored.version()) {
  if (genesis_) genesis_digest_ = settings_.genesis_digest(*genesis_);
  for (const v1::EntryHeader& header : stored.headers) {
    history_.Add(header, settings_.header_digest(header));
  }
  header_ = stored.headers.empty() ? stored.newest : stored.headers.back();
  for (const v1::RoundRecord& round : rounds_) {
    earlier_seconds_ = std::max(earlier_seconds_, round.elapsed_seconds());
    budget_.Remember(round);
  }
  // The records of these versions are in the store that had the run before, so this process does
  // not know them.
  if (version() > rounds_.size()) budget_.NoteUnknown(version() - rounds_.size());
}

uint64_t Ledger::LastVersion(bool exchanging) const {
  if (!control_.stopping()) return spec_.rounds();
  return version() + (exchanging ? 1 : 0);
}

bool Ledger::Evaluated(uint64_t version) const {
  return std::any_of(
      evaluations_.rbegin(), evaluations_.rend(),  // the last one is the most likely to match
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
  welcome->set_epoch_proof(EpochProof());
  *welcome->mutable_spec() = spec_;
  if (genesis_) {
    *welcome->mutable_genesis() = *genesis_;
    if (settings_.sign_genesis) welcome->set_genesis_proof(settings_.sign_genesis(*genesis_));
  }
  welcome->set_version(version());
  if (header_) *welcome->mutable_header() = *header_;
  if (seal_) *welcome->mutable_seal() = *seal_;
  welcome->set_failure_timeout_milliseconds(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(settings_.failure_timeout)));
  return message;
}

void Ledger::Show(absl::Time now, v1::RunStatus* status) const {
  *status->mutable_spec() = spec_;
  status->set_epoch(epoch_);
  status->set_version(version());
  status->set_epoch_seconds(absl::ToDoubleSeconds(now - epoch_began_));
  status->set_paused(control_.paused());
  status->set_stopping(control_.stopping() && !seal_);
  if (control_.stopping()) status->set_stopped_because(control_.reason);
  if (genesis_) status->set_parameters(genesis_->manifest().elements());
  status->set_tokens(Tokens());
  if (seal_) *status->mutable_seal() = *seal_;
}

v1::ListAccountsResponse Ledger::Accounts(const v1::ListAccountsRequest& request) const {
  const uint32_t limit =
      request.limit() == 0 ? kMostAccounts : std::min(request.limit(), kMostAccounts);
  v1::ListAccountsResponse response;
  response.set_version(version());
  const auto all = static_cast<double>(history_.headers());
  const std::map<std::string, ContributorSum>& sums = history_.contributors();
  for (auto it = sums.upper_bound(request.after()); it != sums.end(); ++it) {
    if (static_cast<uint32_t>(response.accounts_size()) == limit) {
      response.set_next(response.accounts().rbegin()->peer());
      break;
    }
    *response.add_accounts() = AccountOf(it->second, all);
  }
  return response;
}

absl::StatusOr<v1::Receipt> Ledger::IssueReceipt(const std::string& peer, absl::Time wall) const {
  if (!settings_.sign_receipt) {
    return absl::FailedPreconditionError(
        absl::StrCat("the history of run ", spec_.run_id(),
                     " is unsigned, so nobody can vouch for what a peer has given to it"));
  }
  const auto found = history_.contributors().find(peer);
  if (found == history_.contributors().end()) {
    std::vector<std::string> names;
    for (const auto& [name, sum] : history_.contributors()) names.push_back(name);
    return absl::NotFoundError(absl::StrCat("no entry of run ", spec_.run_id(), " names it: ",
                                            UnknownNameMessage("peer", peer, names)));
  }
  v1::Receipt receipt;
  receipt.set_run_id(spec_.run_id());
  *receipt.mutable_account() = AccountOf(found->second, static_cast<double>(history_.headers()));
  receipt.set_version(version());
  receipt.set_header_digest(digest());
  receipt.set_issued_unix_seconds(absl::ToUnixSeconds(wall));
  receipt.set_history_key(spec_.history_key());
  receipt.set_signature(settings_.sign_receipt(receipt));
  return receipt;
}

void Ledger::ShowShares(v1::RunStatus* status) const {
  if (!header_) return;
  const std::vector<double> shares = MeanShares(*header_);
  std::map<absl::string_view, double> by_peer;
  for (int i = 0; i < header_->contributors_size(); ++i) {
    by_peer[header_->contributors(i).peer()] = shares[static_cast<size_t>(i)];
  }
  for (v1::PeerStatus& peer : *status->mutable_peers()) {
    const auto found = by_peer.find(peer.member().peer());
    if (found != by_peer.end()) peer.set_mean_share(found->second);
  }
}

void Ledger::ShowEnd(absl::Time now, absl::Time wall, bool exchanging,
                     v1::RunStatus* status) const {
  if (seal_ || control_.paused() || !status->reason().empty()) return;
  const double seconds = SecondsLeft(now, exchanging);
  if (seconds <= 0) return;
  status->set_predicted_end_unix_seconds(
      absl::ToDoubleSeconds(wall + absl::Seconds(seconds) - absl::UnixEpoch()));
}

// Returns 0 if the time is unknown or nothing is left.
double Ledger::SecondsLeft(absl::Time now, bool exchanging) const {
  const uint64_t last = LastVersion(exchanging);
  if (rounds_.empty() || version() >= last) return 0;
  // The time of the first round counts from the first Train, for which there is no record.
  double from_seconds = 0;
  uint64_t from_version = 0;
  if (rounds_.size() > kPaceRounds) {
    const v1::RoundRecord& from = rounds_[rounds_.size() - kPaceRounds - 1];
    from_seconds = from.elapsed_seconds();
    from_version = from.version();
  }
  const v1::RoundRecord& newest = rounds_.back();
  const double pace = (newest.elapsed_seconds() - from_seconds) /
                      static_cast<double>(newest.version() - from_version);
  if (pace <= 0) return 0;
  // Part of the current round is over. A round that takes longer than the others may end at any
  // moment.
  const double under_way = std::clamp(Elapsed(now) - newest.elapsed_seconds(), 0.0, pace);
  return std::max(pace * static_cast<double>(last - version()) - under_way, kAnyMoment);
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
  // The peer's history differs from this one in a version that this process, or an earlier one, has
  // committed.
  return absl::FailedPreconditionError(
      absl::StrCat("it holds version ", version, " with header ", absl::BytesToHexString(digest),
                   ", but the run's newest is ", this->version(), " with header ",
                   absl::BytesToHexString(this->digest()), seal_ ? ", and it is sealed" : "",
                   ": two histories; to join this one start it with an empty directory"));
}

absl::Status Ledger::CheckChain(uint64_t version, const std::string& digest) const {
  if (Ahead(version)) return MayAdopt(version, digest);
  const std::string known = genesis_ ? this->digest(version) : "";
  // The digest of a version in a gap is unknown; the peer checks it against its own chain when it
  // fetches what it lacks.
  if (!genesis_ || (!known.empty() && known != digest)) {
    return absl::FailedPreconditionError(
        absl::StrCat("its version ", version,
                     " is of another history than the run's; start it with an empty directory"));
  }
  return absl::OkStatus();
}

absl::Status Ledger::CheckClaim(uint64_t version, const std::string& digest,
                                const v1::EntryHeader& header) const {
  if (!Ahead(version) || !settings_.check_signed || Planted(PlantedBug::kVersionBelieved)) {
    return absl::OkStatus();
  }
  absl::Status stands = settings_.check_signed(header);
  if (stands.ok() && (header.version() != version || settings_.header_digest(header) != digest)) {
    stands = absl::InvalidArgumentError("its header is another one");
  }
  if (stands.ok()) return stands;
  return absl::InvalidArgumentError(absl::StrCat("it does not show that it holds version ", version,
                                                 ", where the run's newest is ", this->version(),
                                                 ": ", stands.message()));
}

std::string Ledger::EpochProof() const {
  const EpochClaim claim{epoch_, settings_.life};
  return settings_.sign_epoch ? settings_.life + settings_.sign_epoch(claim) : settings_.life;
}

absl::Status Ledger::CheckEpoch(const v1::Hello& hello) const {
  if (hello.epoch() < epoch_ || !settings_.check_epoch || Planted(PlantedBug::kEpochBelieved)) {
    return absl::OkStatus();
  }
  const std::string& proof = hello.epoch_proof();
  const EpochClaim claim{hello.epoch(), proof.substr(0, kLifeBytes)};
  if (proof.size() > kLifeBytes && settings_.check_epoch(claim, proof.substr(kLifeBytes))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("peer ", hello.peer(), " names epoch ", hello.epoch(), ", this is epoch ",
                   epoch_, ", and it does not show that a coordinator of this run told it so"));
}

bool Ledger::Outgrown(const v1::Hello& hello, bool first_word) const {
  if (hello.epoch() < epoch_ || Planted(PlantedBug::kEpochResetAtRestart)) return false;
  if (Planted(PlantedBug::kEpochBelieved)) return hello.epoch() > epoch_ || first_word;
  const std::string life = hello.epoch_proof().substr(0, kLifeBytes);
  if (life.empty() || settings_.life.empty()) return hello.epoch() > epoch_ || first_word;
  // An epoch of this process is not news, no matter which peer repeats it.
  return life != settings_.life;
}

absl::Status Ledger::CheckNext(const v1::Genesis& genesis, const v1::Headers& headers,
                               LeaseBook* leases) const {
  std::string previous = genesis_ ? digest() : settings_.genesis_digest(genesis);
  uint64_t at = version();
  const bool gap = headers.headers_size() > 0 && headers.headers(0).version() > at + 1;
  if (gap) {
    const absl::Status stands = CheckBeyondGap(headers.headers(0));
    if (!stands.ok()) return stands;
    previous = headers.headers(0).previous_header_digest();
    at = headers.headers(0).version() - 1;
  }
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
  if (gap) LoseSamples(headers, leases);
  return absl::OkStatus();
}

absl::Status Ledger::CheckGenesis(const v1::Genesis& genesis) const {
  if (settings_.genesis_digest(genesis) == genesis_digest_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "its version 0 is of another history than the run's; start it with an empty directory");
}

absl::Status Ledger::CheckBeyondGap(const v1::EntryHeader& header) const {
  if (!genesis_ || !settings_.check_signed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "entry ", header.version(), ": nothing vouches for it without entry ", version() + 1,
        ", since ", genesis_ ? "the history is unsigned" : "the store has no version 0"));
  }
  return settings_.check_signed(header);
}

// Marks samples as lost that the missing headers may have spent. These were granted before the last
// lease that the new headers name, or soon after it, because each contributor holds one lease.
void Ledger::LoseSamples(const v1::Headers& headers, LeaseBook* leases) const {
  uint64_t longest = 0;
  std::set<std::string> holders;
  for (const auto& [peer, sum] : history_.contributors()) holders.insert(peer);
  for (const v1::EntryHeader& header : headers.headers()) {
    for (const v1::Contributor& contributor : header.contributors()) {
      holders.insert(contributor.peer());
      uint64_t held = 0;
      for (const v1::SampleRange& range : contributor.samples()) held += range.count();
      longest = std::max(longest, held);
    }
  }
  leases->Lose(leases->next() + holders.size() * longest);
}

void Ledger::BeginEpoch(absl::Time now, RunUpdate* update) {
  update->epoch = ++epoch_;
  epoch_began_ = now;
}

absl::Status Ledger::Control(RunControl::State wanted, const std::string& reason, bool exchanging,
                             RunOutput* out) {
  if (wanted == RunControl::State::kStopping) {
    if (!genesis_) {
      return absl::FailedPreconditionError(
          "the run has no version 0 yet, so there is nothing to seal; end its processes instead");
    }
    if (seal_ || control_.stopping()) return absl::OkStatus();
  } else {
    if (seal_) return absl::FailedPreconditionError("the run is sealed");
    if (control_.stopping()) {
      return absl::FailedPreconditionError(
          wanted == RunControl::State::kPaused
              ? "the run is being stopped"
              : "the run is being stopped, and that cannot be undone");
    }
    if (control_.state == wanted) return absl::OkStatus();
  }
  control_ = {wanted, reason};
  out->update.control = control_;
  SayControl(exchanging, out);
  return absl::OkStatus();
}

void Ledger::StopWhereEnough(absl::Time now, bool exchanging, RunOutput* out) {
  const bool goes_on = genesis_ && !seal_ && control_.state == RunControl::State::kGoing &&
                       version() < spec_.rounds();
  if (!goes_on) return;
  std::string why = budget_.WhyEnough();
  if (why.empty()) why = WhyFarEnough(now);
  if (why.empty()) return;
  control_ = {RunControl::State::kStopping, why};
  out->update.control = control_;
  out->Say(absl::StrCat("the run has come far enough: ", why, "; its last version is ",
                        LastVersion(exchanging)));
}

std::string Ledger::WhyFarEnough(absl::Time now) {
  const size_t known = rounds_.size() + evaluations_.size();
  if (!settings_.stop_when.any() || known == looked_at_) return "";
  looked_at_ = known;
  return WhyEnough(settings_.stop_when, evaluations_, Tokens(), absl::Seconds(Elapsed(now)));
}

void Ledger::SayControl(bool exchanging, RunOutput* out) const {
  const std::string because = Because(control_.reason);
  switch (control_.state) {
    case RunControl::State::kPaused:
      return out->Say(absl::StrCat("an operator has paused the run", because,
                                   exchanging ? "; the exchange under way is finished first" : ""));
    case RunControl::State::kGoing:
      return out->Say("an operator has resumed the run");
    case RunControl::State::kStopping:
      return out->Say(absl::StrCat("an operator has stopped the run", because,
                                   "; its last version is ", LastVersion(exchanging)));
  }
}

void Ledger::AcceptGenesis(const v1::Genesis& genesis, RunUpdate* update) {
  genesis_ = genesis;
  spec_ = genesis.spec();
  genesis_digest_ = settings_.genesis_digest(genesis);
  update->genesis = genesis;
  update->spec = spec_;
}

void Ledger::DropGenesis() {
  CHECK(genesis_ && version() == 0 && !header_);
  spec_ = WithoutFirstWorkers(spec_);
  genesis_.reset();
  genesis_digest_.clear();
  evaluations_.clear();
}

absl::Status Ledger::CheckCommit(const v1::EntryHeader& header) const {
  return settings_.check_header(*genesis_, version(), digest(), header);
}

void Ledger::Commit(const v1::EntryHeader& header, const v1::RoundRecord& record,
                    RunUpdate* update) {
  if (header.version() > version() + 1) {
    update->gap = HistoryGap{version() + 1, header.version() - 1};
    budget_.NoteUnknown(header.version() - version() - 1);
  }
  history_.Add(header, settings_.header_digest(header));
  header_ = header;
  rounds_.push_back(record);
  budget_.Note(header, &rounds_.back());
  update->headers.push_back(header);
  update->rounds.push_back(rounds_.back());
  MakeCheckpoint(update);
}

// Makes at most one checkpoint in a transaction.
void Ledger::MakeCheckpoint(RunUpdate* update) {
  if (update->checkpoint || history_.since_checkpoint() < settings_.checkpoint_every) return;
  const Digest digest = history_.ProvenDigest(genesis_digest_);
  update->checkpoint = history_.TakeCheckpoint();
  update->checkpoint->proof =
      settings_.sign_checkpoint ? settings_.sign_checkpoint(digest) : ToBytes(digest);
}

void Ledger::Adopt(const v1::EntryHeader& header, RunUpdate* update) {
  v1::RoundRecord record;
  record.set_version(header.version());
  record.set_contributors(static_cast<uint32_t>(header.contributors_size()));
  record.set_elapsed_seconds(earlier_seconds_);  // not later than the times of all later rounds
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

std::string CommitLine(const v1::RoundRecord& round, const std::vector<std::string>& by) {
  constexpr size_t kMostNamed = 32;
  return absl::StrCat("round ", round.version(), ": committed by ",
                      by.size() > kMostNamed ? Counted(by.size(), "peer") : absl::StrJoin(by, ", "),
                      "; exchange ", ExchangeTime(round));
}

}  // namespace atolld
