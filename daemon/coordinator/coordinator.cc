#include "daemon/coordinator/coordinator.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/casts.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/config/mode_resolution.h"
#include "daemon/coordinator/admin_service.h"
#include "daemon/coordinator/enrolment.h"
#include "daemon/coordinator/history_check.h"
#include "daemon/coordinator/line_measure.h"
#include "daemon/coordinator/session_stream.h"
#include "daemon/coordinator/throttle.h"
#include "daemon/env/env.h"
#include "daemon/env/network.h"
#include "daemon/replica/state/branch_file.h"
#include "membership/history/fragment.h"
#include "membership/history/header.h"
#include "membership/history/receipt.h"
#include "membership/history/run_codecs.h"
#include "membership/history/signing_key.h"
#include "membership/run/run.h"
#include "membership/run/run_output.h"
#include "membership/trust/tokens.h"
#include "optimizer/aggregation_kernels.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

constexpr char kSession[] = "/atolld.v1.Membership/Session";

// Asked of a suspect only to see whether anything listens on its address; the answer to a
// half-closed call is empty.
constexpr char kProbe[] = "/atolld.v1.Replica/FetchEntries";

constexpr size_t kLongestAggregatorTrouble = 500;
constexpr absl::Duration kProbeDeadline = absl::Seconds(3);

v1::RunDescription DescribeRun(const v1::RunStatus& status) {
  v1::RunDescription description;
  *description.mutable_spec() = status.spec();
  description.set_begun(status.parameters() > 0);
  description.set_version(status.version());
  if (status.has_seal()) *description.mutable_seal() = status.seal();
  for (const v1::PeerStatus& peer : status.peers()) {
    const v1::Member& member = peer.member();
    if (!member.has_state() || member.version() < status.version()) continue;
    const bool here = member.state() == "joining" || member.state() == "live";
    *(here ? description.add_holders() : description.add_past_holders()) = member.peer();
  }
  return description;
}

absl::Status RevokedError(const Identity& caller) {
  return absl::PermissionDeniedError(
      absl::StrCat("the certificate of ", Describe(caller),
                   " was revoked: with a new token and a key of its own, a machine may join under "
                   "that name again, unless it was evicted"));
}

// Returns "modified: rounds: 40 -> 80", or an empty text.
std::string Differences(const v1::RunSpec& stored, v1::RunSpec wanted) {
  // The data is known by its digest only once a worker has read it.
  wanted.mutable_data()->set_digest(stored.data().digest());
  wanted.mutable_data()->set_tokenizer_digest(stored.data().tokenizer_digest());
  *wanted.mutable_files() = stored.files();
  wanted.set_history_key(stored.history_key());
  if (wanted.has_parent()) {
    wanted.mutable_parent()->set_next_sample(stored.parent().next_sample());
  }
  google::protobuf::util::MessageDifferencer differencer;
  std::string text;
  differencer.ReportDifferencesToString(&text);
  if (differencer.Compare(stored, wanted)) return "";
  return absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", "; "}});
}

// Returns the key of the stored run's history, or of a new run; nothing if the history is unsigned.
// Fails with FAILED_PRECONDITION if the existing key is not the run's; otherwise as the source.
absl::StatusOr<std::optional<SigningKey>> KeyOfHistory(const StoredRun& stored,
                                                       const HistoryKeySource& source) {
  const bool fresh = !stored.spec.has_value();
  if (fresh ? source == nullptr : stored.spec->history_key().empty()) return std::nullopt;
  if (source == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the history of run ", stored.spec->run_id(), " is signed; no key is given"));
  }
  ASSIGN_OR_RETURN(SigningKey key, source(fresh));
  if (!fresh && key.public_key() != stored.spec->history_key()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the history of run ", stored.spec->run_id(), " is signed with key ",
        absl::BytesToHexString(stored.spec->history_key()), "; the one that is here is ",
        absl::BytesToHexString(key.public_key()), ": put the run's own key back"));
  }
  return std::optional<SigningKey>(std::move(key));
}

// Returns the branch file that the config names: the run's version 0. Returns nothing if it names
// none, or if the file is missing and the run has begun: then its record has the lineage.
absl::StatusOr<std::optional<v1::SnapshotInfo>> BranchOf(Files& files, const Config& config,
                                                         const StoredRun& stored) {
  if (config.run.branch.empty()) return std::nullopt;
  absl::StatusOr<v1::SnapshotInfo> head = ReadBranchHead(files, config.run.branch);
  if (absl::IsNotFound(head.status()) && stored.spec && stored.spec->has_parent()) {
    return std::nullopt;
  }
  if (!head.ok()) return Annotate(head.status(), "[run] branch");
  if (head->genesis().spec().run_id() == config.run.id) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[run] id is ", config.run.id,
        ", the run from which it branches; a branch is a run of its own, so give another id"));
  }
  return std::optional<v1::SnapshotInfo>(*std::move(head));
}

// Returns the spec to run: the stored one if the config agrees with it, or a new one for an empty
// store (with the config's run id, or one made from the time), whose history `key` signs if it is
// set. Fails with FAILED_PRECONDITION, which names what differs.
absl::StatusOr<v1::RunSpec> SpecToRun(const Config& config, const StoredRun& stored,
                                      absl::Time wall_time, const std::optional<SigningKey>& key,
                                      const std::optional<v1::SnapshotInfo>& branch,
                                      std::string* mode_because) {
  Config named = config;
  if (named.run.id.empty()) {
    named.run.id = stored.spec
                       ? stored.spec->run_id()
                       : absl::FormatTime("run-%Y%m%d-%H%M%S", wall_time, absl::UTCTimeZone());
  }
  if (!IsValidId(named.run.id)) {
    return absl::InvalidArgumentError("the run's id must be 1-64 characters of a-z, 0-9 and '-'");
  }
  ASSIGN_OR_RETURN(v1::RunSpec wanted,
                   SpecOf(named, stored.spec ? &*stored.spec : nullptr, mode_because));
  if (branch) {
    *wanted.mutable_parent() = LineageUnder(*branch, wanted);
  } else if (stored.spec && stored.spec->has_parent() && !config.run.branch.empty()) {
    *wanted.mutable_parent() = stored.spec->parent();
  }
  if (!stored.spec) {
    if (key) wanted.set_history_key(key->public_key());
    return wanted;
  }
  if (stored.spec->run_id() != wanted.run_id()) {
    return absl::FailedPreconditionError(absl::StrCat("it holds run ", stored.spec->run_id(),
                                                      ", the config names ", wanted.run_id(),
                                                      "; give the new run its own folder"));
  }
  const std::string differences = Differences(*stored.spec, wanted);
  if (differences.empty()) return *stored.spec;
  return absl::FailedPreconditionError(absl::StrCat(
      "run ", wanted.run_id(),
      " was made with other settings, and a run's settings never change: ", differences));
}

// Sets what the holder of a run's history key signs and checks.
void SignWith(const SigningKey& key, const v1::RunSpec& spec, RunSettings* settings) {
  settings->sign_header = [key](const v1::EntryHeader& header) { return SignHeader(key, header); };
  settings->sign_checkpoint = [key](const Digest& digest) { return SignCheckpoint(key, digest); };
  settings->sign_seal = [key](const v1::Seal& seal) { return SignSeal(key, seal); };
  settings->sign_receipt = [key](const v1::Receipt& receipt) { return SignReceipt(key, receipt); };
  settings->sign_genesis = [key](const v1::Genesis& genesis) { return SignGenesis(key, genesis); };
  settings->check_signed = [spec](const v1::EntryHeader& header) {
    return CheckSigned(spec, header);
  };
  settings->sign_epoch = [key](const EpochClaim& claim) {
    return SignEpoch(key, claim.epoch, claim.life);
  };
  settings->check_epoch = [spec](const EpochClaim& claim, const std::string& signature) {
    return CheckEpochSigned(spec, claim.epoch, claim.life, signature);
  };
}

StopRule StopRuleOf(const CoordinatorConfig& config) {
  return {config.stop_when.loss_below, config.stop_when.no_improvement, config.stop_when.tokens,
          config.stop_when.time};
}

// Returns the settings by which the run decides. `key` is that of a spec that names one. Fails with
// INVALID_ARGUMENT if the outer rule or the codec is unknown, or if its numbers are invalid.
absl::StatusOr<RunSettings> MakeRunSettings(const Config& config, const v1::RunSpec& spec,
                                            const std::optional<SigningKey>& key) {
  ASSIGN_OR_RETURN(const OuterRule* const rule, FindOuterRule(spec.outer().rule()));
  ASSIGN_OR_RETURN(const LevelCodecs codecs, CarriedCodecsOf(spec));
  ASSIGN_OR_RETURN(const AggregationRule aggregation, RuleOf(spec.exchange()));
  if (spec.exchange().chunk_elements() == 0)
    return absl::InvalidArgumentError("chunks of no values");
  ASSIGN_OR_RETURN(const OuterScalars scalars, rule->Scalars(OuterSettingsOf(spec.outer())));
  RunSettings settings;
  v1::EntryHeader carrier;
  SetScalars(scalars, &carrier);
  settings.scalars.assign(carrier.scalars().begin(), carrier.scalars().end());
  settings.round.peers = std::max<uint32_t>(1, config.run.peers);
  settings.round.quorum = config.run.quorum == 0 ? settings.round.peers / 2 + 1 : config.run.quorum;
  // With fewer the rule could not bear the liars that it is made for.
  settings.round.quorum = std::max<uint32_t>(
      settings.round.quorum, static_cast<uint32_t>(aggregation.LeastContributors()));
  settings.failure_timeout = config.membership.failure_timeout;
  settings.round.waits = config.membership.stragglers == "wait";
  settings.weight_cap = static_cast<float>(config.membership.weight_cap);
  settings.pace.kind = config.inner.pace == "time"   ? PaceSettings::Kind::kTime
                       : config.inner.pace == "auto" ? PaceSettings::Kind::kAuto
                                                     : PaceSettings::Kind::kFixed;
  settings.pace.time = config.inner.time;
  settings.stop_when = StopRuleOf(config);
  settings.plan = config.exchange.plan == "regions" ? PlanKind::kRegions
                  : config.exchange.plan == "flat"  ? PlanKind::kFlat
                                                    : PlanKind::kAuto;
  const bool mean = aggregation.settings().rule == "mean";
  // A relay's mean could not be judged, and would have other contributors for each expert.
  if (!mean || HasExperts(spec)) settings.plan = PlanKind::kFlat;
  settings.judge.clip = absl::bit_cast<float>(spec.exchange().clip_bits());
  settings.judge.from_centre = aggregation.has_centre();
  settings.judge.remembers = FragmentsOf(spec) == 1;
  settings.judge.least = aggregation.LeastContributors();
  if (!mean) settings.judge.most = kMostContributors;
  settings.judge.offenders = {config.membership.offences, config.membership.offence_rounds,
                              config.membership.outsized};
  settings.encoded_size = [codecs, chunk = spec.exchange().chunk_elements()](uint64_t values) {
    return EncodedSizeOf(values, chunk, codecs);
  };
  settings.header_digest = [](const v1::EntryHeader& header) {
    return ToBytes(HeaderDigest(header));
  };
  settings.genesis_digest = [](const v1::Genesis& genesis) {
    return ToBytes(GenesisDigest(genesis));
  };
  settings.check_header = [](const v1::Genesis& genesis, uint64_t version,
                             const std::string& previous,
                             const v1::EntryHeader& header) -> absl::Status {
    ASSIGN_OR_RETURN(const Digest digest, DigestFromBytes(previous));
    return CheckHeader(genesis, version, digest, header);
  };
  if (spec.history_key().empty()) return settings;
  CHECK(key && key->public_key() == spec.history_key());
  SignWith(*key, spec, &settings);
  return settings;
}

}  // namespace

struct Coordinator::State {
  State(Env env_in, const Config& config_in, std::unique_ptr<Store> store_in,
        Authority* authority_in, HistoryKeySource history_key_in)
      : env(env_in),
        config(config_in),
        authority(authority_in),
        history_key(std::move(history_key_in)),
        store(std::move(store_in)),
        session_limits(config.limits.sessions_per_minute) {}

  absl::Status Open();
  void NoteChecked(const HistoryCheck& checked, const RunSettings& settings, RunUpdate* update);
  absl::Status Listen();
  void Accept(const std::string& method, std::unique_ptr<Call> call);
  void AcceptSession(std::unique_ptr<Call> call);
  void Reject(std::unique_ptr<Call> call, const absl::Status& why);
  void OnSessionClosed(SessionId id);
  void Push(RunOutput output, Task done = nullptr);
  absl::Time Now() const;  // for the run's decisions
  void Deliver(const RunOutput& output);
  void Send(const std::vector<RunOutput::Send>& sends);
  void Probe(const RunOutput::Probe& probe);
  void End();
  void Tick();
  void Beat();
  void WatchReachable();
  void ArmWake();
  std::string WaitingFor() const;
  v1::RunStatus Status() const;
  void Obey(const RunOrder& order, AdminService::Obeyed done);
  AdminService::Source AdminSource();
  Enrolment::Source EnrolmentSource();
  absl::Status MayMeasure(const Identity& caller) const;
  void TryStore(std::function<void(absl::Status)> told) {
    RunUpdate same;
    same.epoch = run->ledger().epoch();  // as it is
    outbox->Try(std::move(same), std::move(told));
  }
  void OnHello(SessionId id, const std::optional<Identity>& caller, const v1::Hello& hello);
  void OnMessage(SessionId id, const v1::PeerMessage& message);
  RunOutput Seen(const Identity& caller);
  void Revoke(RunUpdate update, const std::string& said, Task done);
  absl::Duration interval() const { return config.membership.failure_timeout / 4; }

  Env env;
  const Config config;
  Authority* const authority;
  const HistoryKeySource history_key;
  const std::shared_ptr<Store> store;
  std::string mode_because;                // RunStatus.mode_because
  std::optional<v1::SnapshotInfo> branch;  // the head of the file that version 0 is made from
  std::unique_ptr<Run> run;
  std::unique_ptr<Outbox> outbox;
  std::unique_ptr<AdminService> admin;
  std::unique_ptr<EnrolmentBook> book;
  std::unique_ptr<Enrolment> enrolment;
  std::unique_ptr<LineMeasure> line_measure;
  SessionId last_session = 0;
  std::map<SessionId, std::unique_ptr<SessionStream>> sessions;
  PackedMessages packed;
  SessionLimits session_limits;
  uint64_t last_call = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls;  // probes and refused calls, until they end
  // What the outside may know of: it is durable.
  uint64_t announced_version = 0;
  std::vector<v1::EvaluationRecord> announced_evaluations;
  bool announced_seal = false;
  Executor::TimerId wake_timer = 0;
  absl::Time wake_at = absl::InfiniteFuture();
  Task on_sealed;
  Task on_unreachable;
  bool lacked_reachable = false;  // at the last beat
  std::string aggregator_trouble;
  bool over = false;
  bool ending = false;
  std::unique_ptr<Listener> listener;
  CallbackGuard guard;
};

absl::Status Coordinator::State::Open() {
  const std::string& listen =
      config.coordinator.listen.empty() ? config.coordinator.address : config.coordinator.listen;
  if (!IsLoopback(listen) && config.network.plaintext) {
    return absl::FailedPreconditionError(absl::StrCat(
        "will not listen on ", listen,
        ": in plain text others could read and change the run; leave [network] plaintext out"));
  }
  ASSIGN_OR_RETURN(StoredRun stored, store->Load());
  const absl::StatusOr<HistoryCheck> checked =
      CheckHistory(*store, HistoryExtent::kSinceCheckpoint, &stored);
  if (!checked.ok()) return Annotate(checked.status(), store->where());
  absl::StatusOr<std::optional<SigningKey>> key = KeyOfHistory(stored, history_key);
  if (!key.ok()) return Annotate(key.status(), store->where());
  ASSIGN_OR_RETURN(branch, BranchOf(env.files, config, stored));
  absl::StatusOr<v1::RunSpec> spec =
      SpecToRun(config, stored, env.executor.WallTime(), *key, branch, &mode_because);
  if (!spec.ok()) return Annotate(spec.status(), store->where());
  ASSIGN_OR_RETURN(RunSettings settings, MakeRunSettings(config, *spec, *key));
  settings.draw_nonce = [this] { return RandomBytes(env.executor); };
  settings.life = RandomBytes(env.executor).substr(0, kLifeBytes);
  RunUpdate update;
  if (!stored.spec) update.spec = *spec;
  update.epoch = Planted(PlantedBug::kEpochResetAtRestart) ? 1 : stored.epoch + 1;
  NoteChecked(*checked, settings, &update);
  RETURN_IF_ERROR(store->Apply(update));
  stored.spec = *spec;
  stored.epoch = *update.epoch;
  announced_version = stored.version();
  announced_evaluations = stored.evaluations;
  announced_seal = stored.seal.has_value();
  run = std::make_unique<Run>(std::move(settings), stored, Now());
  outbox = std::make_unique<Outbox>(env, store, [this](const RunOutput& out) { Deliver(out); });
  admin = std::make_unique<AdminService>(env, AdminSource());
  book = std::make_unique<EnrolmentBook>(stored.tokens, stored.certificates);
  const std::vector<KeyRecord> revoked = book->RevokedKeys();
  if (!revoked.empty()) Push(run->OnRevoked(Now(), revoked));
  enrolment = std::make_unique<Enrolment>(env, authority, *book, EnrolmentSource());
  line_measure = std::make_unique<LineMeasure>(
      env.executor, [this](const Identity& caller) { return MayMeasure(caller); });
  RETURN_IF_ERROR(Listen());
  env.log.Info(absl::StrCat("run ", spec->run_id(), ": epoch ", stored.epoch, ", version ",
                            announced_version, ", ", Counted(checked->headers, "header"),
                            " checked, listening on ", listener->address()));
  if (!mode_because.empty()) env.log.Info(absl::StrCat("mode: ", mode_because));
  Beat();
  return absl::OkStatus();
}

void Coordinator::State::NoteChecked(const HistoryCheck& checked, const RunSettings& settings,
                                     RunUpdate* update) {
  if (!checked.unfit.empty()) {
    env.log.Warning(absl::StrCat(store->where(), ": ", checked.unfit, "; all ",
                                 Counted(checked.headers, "header"), " were checked instead"));
  }
  if (!checked.renewal) return;
  update->checkpoint = checked.renewal;
  update->checkpoint->proof = settings.sign_checkpoint
                                  ? settings.sign_checkpoint(checked.renewal_digest)
                                  : ToBytes(checked.renewal_digest);
}

absl::Status Coordinator::State::Listen() {
  const bool as_dialled = config.coordinator.listen.empty();
  absl::StatusOr<std::unique_ptr<Listener>> made = env.transport.Listen(
      as_dialled ? config.coordinator.address : config.coordinator.listen,
      guard.Wrap([this](const std::string& method, std::unique_ptr<Call> call) {
        Accept(method, std::move(call));
      }));
  if (!made.ok()) {
    return Annotate(made.status(), as_dialled ? "[coordinator] listen (not set, so `address`)"
                                              : "[coordinator] listen");
  }
  listener = *std::move(made);
  return absl::OkStatus();
}

void Coordinator::State::Accept(const std::string& method, std::unique_ptr<Call> call) {
  const std::optional<Identity> caller = call->identity();
  if (caller && book->Revoked(caller->serial, caller->key)) {
    Reject(std::move(call), RevokedError(*caller));
    return;
  }
  if (caller && caller->role == Role::kAdmin) Push(Seen(*caller));
  if (method == kSession) {
    AcceptSession(std::move(call));
  } else if (enrolment->Accept(method, &call) || line_measure->Accept(method, &call)) {
    return;
  } else if (!admin->Accept(method, &call)) {
    Reject(std::move(call),
           absl::UnimplementedError(absl::StrCat("a coordinator does not serve ", method)));
  }
}

void Coordinator::State::AcceptSession(std::unique_ptr<Call> call) {
  const std::optional<Identity> caller = call->identity();
  const absl::Status room = session_limits.Check(Now(), caller, sessions.size());
  if (!room.ok()) return Reject(std::move(call), room);
  const SessionId id = ++last_session;
  SessionStream::Events events;
  events.on_hello = [this, id, caller](const v1::Hello& hello) { OnHello(id, caller, hello); };
  events.on_message = [this, id](const v1::PeerMessage& message) {
    OnMessage(id, message);
    if (message.has_heartbeat()) admin->Changed();
  };
  // Later: a stream is not destroyed from inside its own callback.
  events.on_closed = [this, id] {
    env.executor.Post(guard.Wrap([this, id] { OnSessionClosed(id); }));
  };
  sessions[id] =
      std::make_unique<SessionStream>(env, std::move(call), config.membership.failure_timeout,
                                      config.limits.session_messages, std::move(events));
}

// Remembers a certificate that is seen for the first time, so that it can be revoked.
RunOutput Coordinator::State::Seen(const Identity& caller) {
  RunOutput output;
  if (caller.serial.empty()) return output;
  std::optional<CertificateRecord> seen =
      book->See(env.executor.WallTime(), caller, kCertificateLife);
  if (seen) output.update.certificates.push_back(*std::move(seen));
  return output;
}

// The keys in `update` are revoked in the book. The others are told when that is durable; then
// their Sessions end.
void Coordinator::State::Revoke(RunUpdate update, const std::string& said, Task done) {
  RunOutput output = run->OnRevoked(Now(), book->RevokedKeys());
  for (CertificateRecord& revoked : update.certificates) {
    output.update.certificates.push_back(std::move(revoked));
  }
  for (const auto& [id, session] : sessions) {
    const std::optional<Identity> caller = session->identity();
    if (caller && book->Revoked(caller->serial, caller->key)) {
      output.ends.push_back({id, RevokedError(*caller)});
    }
  }
  output.Say(said, RunOutput::Severity::kWarning);
  Push(std::move(output), [this, done = std::move(done)] {
    admin->Cut([this](const Identity& one) { return book->Revoked(one.serial, one.key); },
               absl::PermissionDeniedError("your key was revoked"));
    done();
  });
}

void Coordinator::State::OnHello(SessionId id, const std::optional<Identity>& caller,
                                 const v1::Hello& hello) {
  RunOutput output = run->OnHello(Now(), id, hello);
  if (caller) {
    RunOutput seen = Seen(*caller);
    for (CertificateRecord& record : seen.update.certificates) {
      output.update.certificates.push_back(std::move(record));
    }
  }
  Push(std::move(output));
}

// Checks whether version 0 is the state in the branch file, because the Run knows no files.
void Coordinator::State::OnMessage(SessionId id, const v1::PeerMessage& message) {
  if (branch && message.initial_state().has_genesis()) {
    const absl::Status made = CheckMadeFrom(*branch, message.initial_state().genesis());
    if (!made.ok()) {
      RunOutput output;
      output.Say(absl::StrCat("a version 0 is refused: ", made.message()),
                 RunOutput::Severity::kWarning);
      output.ends.push_back({id, Annotate(made, "initial state")});
      return Push(std::move(output));
    }
  }
  Push(run->OnMessage(Now(), id, message));
}

void Coordinator::State::Reject(std::unique_ptr<Call> call, const absl::Status& why) {
  const uint64_t id = ++last_call;
  Call& taken = *(calls[id] = std::move(call));
  Call::Events events;
  events.on_closed = guard.Wrap([this, id](const absl::Status&) {
    env.executor.Post(guard.Wrap([this, id] { calls.erase(id); }));
  });
  taken.Start(std::move(events));
  taken.Finish(why);
}

void Coordinator::State::OnSessionClosed(SessionId id) {
  const auto found = sessions.find(id);
  const std::optional<Identity> caller = found != sessions.end() && found->second->said_hello()
                                             ? found->second->identity()
                                             : std::nullopt;
  sessions.erase(id);
  if (caller) Push(Seen(*caller));  // the last time
  Push(run->OnBroken(Now(), id));
}

absl::Time Coordinator::State::Now() const {
  return Planted(PlantedBug::kDeadlineFromWallClock) ? env.executor.WallTime() : env.executor.Now();
}

void Coordinator::State::Push(RunOutput output, Task done) {
  for (const std::string& peer : output.evicted) {
    for (CertificateRecord& revoked : book->SetRevoked(peer, true)) {
      output.update.certificates.push_back(std::move(revoked));
    }
  }
  if (!output.empty() || done) outbox->Push(std::move(output), std::move(done));
  ArmWake();
}

void Coordinator::State::Deliver(const RunOutput& output) {
  if (!output.update.headers.empty()) announced_version = output.update.headers.back().version();
  for (const v1::EvaluationRecord& record : output.update.evaluations)
    announced_evaluations.push_back(record);
  if (output.update.seal) announced_seal = true;
  for (const RunOutput::Event& event : output.events) {
    env.log.Write(event.severity == RunOutput::Severity::kError     ? Log::Level::kError
                  : event.severity == RunOutput::Severity::kWarning ? Log::Level::kWarning
                                                                    : Log::Level::kInfo,
                  event.line);
    if (event.severity != RunOutput::Severity::kRecord) admin->AddEvent(event.line);
  }
  Send(output.sends);
  for (const RunOutput::End& end : output.ends) {
    const auto it = sessions.find(end.session);
    if (it != sessions.end()) it->second->End(end.status);
  }
  for (const RunOutput::Probe& probe : output.probes) Probe(probe);
  over = over || output.finished;
  End();
  admin->Changed();
}

void Coordinator::State::Send(const std::vector<RunOutput::Send>& sends) {
  packed.ForgetOld();
  for (const RunOutput::Send& send : sends) {
    const auto it = sessions.find(send.session);
    if (it != sessions.end()) it->second->Send(packed.Of(send.message));
  }
}

// Tells the watchers first: a task that ends the process would otherwise take the news from them.
void Coordinator::State::End() {
  if (!over || !on_sealed || std::exchange(ending, true)) return;
  admin->EndWatches(config.membership.failure_timeout, on_sealed);
}

void Coordinator::State::Probe(const RunOutput::Probe& probe) {
  const uint64_t id = ++last_call;
  // Another peer at this address does not answer for it.
  Call& call = *(
      calls[id] = env.transport.Dial(FormatPeerAddress(probe.peer, probe.address), kProbe,
                                     std::min(kProbeDeadline, config.membership.failure_timeout)));
  Call::Events events;
  events.on_closed = guard.Wrap([this, id, probe](const absl::Status& status) {
    const ProbeResult result = absl::IsUnavailable(status)        ? ProbeResult::kRefused
                               : absl::IsDeadlineExceeded(status) ? ProbeResult::kSilent
                                                                  : ProbeResult::kAnswered;
    env.executor.Post(guard.Wrap([this, id, probe, result] {
      calls.erase(id);
      Push(run->OnProbed(Now(), probe, result));
    }));
  });
  call.Start(std::move(events));
  call.Finish(absl::OkStatus());
}

void Coordinator::State::Tick() { Push(run->OnTick(Now())); }

// Called at each beat: peers come one after another, and the next may be one that can be dialled.
void Coordinator::State::WatchReachable() {
  const bool lacked = std::exchange(lacked_reachable, run->LacksReachablePeer());
  if (lacked && lacked_reachable && on_unreachable) std::exchange(on_unreachable, nullptr)();
}

void Coordinator::State::Beat() {
  v1::CoordinatorMessage heartbeat;
  heartbeat.mutable_heartbeat()->set_waiting_for(WaitingFor());
  const Frame frame = PackShared(heartbeat);
  // Straight to the streams: a heartbeat says nothing that would have to be durable first.
  for (const auto& [id, session] : sessions) {
    if (session->said_hello()) session->Send(frame);
  }
  env.executor.RunAfter(interval(), guard.Wrap([this] { Beat(); }));
  WatchReachable();
  Tick();
}

void Coordinator::State::ArmWake() {
  const absl::Time now = Now();
  const absl::Time wake = run->NextWake(now);
  // What is later than the next beat, or has passed and waits for something else, the beat takes
  // care of.
  if (wake == wake_at || wake > now + interval()) return;
  env.executor.Cancel(wake_timer);
  wake_at = wake;
  wake_timer = env.executor.RunAfter(wake - now, guard.Wrap([this] {
    wake_at = absl::InfiniteFuture();
    Tick();
  }));
}

std::string Coordinator::State::WaitingFor() const {
  if (!outbox->stalled().empty()) return outbox->stalled();
  std::string reason = run->WaitingFor();
  if (reason.empty() || announced_seal) return reason;
  if (run->version() == 0) reason += NotHereYet(*book, env.executor.WallTime());
  if (aggregator_trouble.empty()) return reason;
  return absl::StrCat(reason,
                      "; the coordinator's own aggregator does not run: ", aggregator_trouble);
}

v1::RunStatus Coordinator::State::Status() const {
  v1::RunStatus status = run->Status(Now(), env.executor.WallTime());
  status.set_version(announced_version);
  if (!announced_seal) status.clear_seal();
  status.set_reason(WaitingFor());
  status.set_mode_because(mode_because);
  ShowNeverCome(*book, env.executor.WallTime(), &status);
  if (!outbox->stalled().empty()) {
    status.set_phase("waiting");
    status.clear_predicted_end_unix_seconds();
  }
  return status;
}

void Coordinator::State::Obey(const RunOrder& order, AdminService::Obeyed done) {
  absl::StatusOr<RunOutput> output = run->OnOrder(Now(), order);
  if (absl::IsNotFound(output.status())) {
    std::vector<std::string> names;
    const v1::RunStatus status = run->Status(Now());
    for (const v1::PeerStatus& peer : status.peers()) names.push_back(peer.member().peer());
    return done(absl::NotFoundError(UnknownNameMessage("peer", order.peer, names)), "");
  }
  if (!output.ok()) return done(output.status(), "");
  const bool evicts = order.verb == RunOrder::Verb::kEvict;
  if (evicts || order.verb == RunOrder::Verb::kReadmit)
    output->update.certificates = book->SetRevoked(order.peer, evicts);
  // Even where nothing changed: what an earlier asker changed may not be durable yet.
  const std::string notice = output->notice;
  Push(*std::move(output), [done = std::move(done), notice] { done(absl::OkStatus(), notice); });
}

AdminService::Source Coordinator::State::AdminSource() {
  AdminService::Source source;
  source.try_store = [this](auto told) { TryStore(std::move(told)); };
  source.obey = [this](const RunOrder& order, AdminService::Obeyed done) {
    Obey(order, std::move(done));
  };
  source.status = [this] { return Status(); };
  source.rounds = [this]() -> const std::vector<v1::RoundRecord>& { return run->rounds(); };
  source.evaluations = [this]() -> const std::vector<v1::EvaluationRecord>& {
    return announced_evaluations;
  };
  // The answer is computed now, and sent when it is durable.
  source.accounts = [this](const v1::ListAccountsRequest& request, auto done) {
    outbox->Push(RunOutput(),
                 [done, response = run->ledger().Accounts(request)] { done(response); });
  };
  source.receipt = [this](const std::string& peer, auto done) {
    outbox->Push(RunOutput(), [done, receipt = run->ledger().IssueReceipt(
                                         peer, env.executor.WallTime())] { done(receipt); });
  };
  source.headers = [this](uint64_t first, uint32_t limit, auto done) {
    auto result = std::make_shared<absl::StatusOr<std::vector<v1::EntryHeader>>>();
    outbox->WithStore(
        [store = store, first, limit, result] { *result = store->ReadHeaders(first, limit); },
        [result, done] { done(std::move(*result)); });
  };
  return source;
}

Enrolment::Source Coordinator::State::EnrolmentSource() {
  Enrolment::Source source;
  source.address = config.coordinator.address;
  source.others = SplitNames(config.coordinator.others);
  source.model_kind = config.model.kind;
  source.signatures_per_second = config.limits.enrolments;
  source.try_store = [this](auto told) { TryStore(std::move(told)); };
  source.store = [this](RunUpdate update, Task done) {
    RunOutput output;
    output.update = std::move(update);
    Push(std::move(output), std::move(done));
  };
  source.revoke = [this](RunUpdate update, const std::string& said, Task done) {
    Revoke(std::move(update), said, std::move(done));
  };
  source.here = [this] {
    std::vector<Identity> here;
    for (const auto& [id, session] : sessions) {
      const std::optional<Identity> caller = session->identity();
      if (caller && session->said_hello()) here.push_back(*caller);
    }
    return here;
  };
  source.evicted = [this](const std::string& peer) { return run->Evicted(peer); };
  source.run_id = [this] { return run->run_id(); };
  source.describe = [this] {
    v1::RunDescription description = DescribeRun(run->Status(Now()));
    if (!announced_evaluations.empty()) {
      description.set_validation_loss(announced_evaluations.back().loss());
    }
    return description;
  };
  return source;
}

// Returns OK for a caller that could join, or has joined.
absl::Status Coordinator::State::MayMeasure(const Identity& caller) const {
  if (run->Evicted(caller.id)) {
    return absl::PermissionDeniedError(absl::StrCat("peer ", caller.id, " was evicted"));
  }
  if (caller.role != Role::kJoin) return absl::OkStatus();
  return book->Look(env.executor.WallTime(), caller.serial).status();
}

Coordinator::Coordinator(Env env, const Config& config, std::unique_ptr<Store> store,
                         Authority* authority, HistoryKeySource history_key)
    : state_(std::make_unique<State>(env, config, std::move(store), authority,
                                     std::move(history_key))) {}

Coordinator::~Coordinator() { Stop(); }

absl::Status Coordinator::Start() {
  CHECK(state_ != nullptr && state_->run == nullptr);
  return state_->Open();
}

std::string Coordinator::address() const {
  return state_ && state_->listener ? state_->listener->address() : "";
}

std::string Coordinator::run_id() const {
  if (!state_ || !state_->run) return "";
  return state_->run->run_id();
}

std::string Coordinator::Doing() const {
  if (!state_ || !state_->run) return "ending";
  return absl::StrCat("run ", state_->run->run_id(), ", version ", state_->run->version(), ", ",
                      state_->run->PhaseText());
}

void Coordinator::OnSealed(Task task) {
  if (!state_) return;
  state_->on_sealed = std::move(task);
  state_->End();
}

void Coordinator::OnUnreachable(Task task) {
  if (state_) state_->on_unreachable = std::move(task);
}

void Coordinator::OnStatus(absl::Duration interval,
                           std::function<void(const v1::RunStatus&)> told) {
  if (state_ && state_->admin) state_->admin->Follow(interval, std::move(told));
}

void Coordinator::SetAggregatorTrouble(const std::string& trouble) {
  if (!state_) return;
  state_->aggregator_trouble = OneLine(trouble, kLongestAggregatorTrouble);
  if (state_->admin) state_->admin->Changed();
}

void Coordinator::Stop() { state_.reset(); }

}  // namespace atolld
