#include "daemon/exchange/exchange.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/contributor_stream.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/mean_audit.h"
#include "daemon/exchange/reducer.h"
#include "daemon/exchange/reducer_stream.h"
#include "daemon/exchange/started_call.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

bool RoundsMeans(const ExchangeSettings& settings) {
  if (Planted(PlantedBug::kMeansRoundedAsUpdates) && !settings.codec->has_stochastic_rounding()) {
    return false;
  }
  return settings.stochastic && settings.upper_codec->has_stochastic_rounding();
}

// The most streams that wait for their Open, and the most that wait for their plan.
constexpr size_t kMaxWaiting = 256;
// The most of these by one caller: several times the largest number of lanes.
constexpr size_t kMostCallsOfOne = 64;

// (epoch, version). Entries can follow each other only in the order of these pairs.
using Key = std::pair<uint64_t, uint64_t>;

}  // namespace

// Ties the parts of an exchange together: the plan, the averaging on this peer, the streams of both
// roles, and the means, from which the outcome is made when all of them have arrived.
//
// Each event is handled in the following order. A new plan (Adopt): the means and partial means
// that it makes invalid are dropped; the Reducer takes the plan and gives out the chunks that are
// now complete; the streams of contributors that must send again are closed; dialled streams get
// their assignments, and accepted streams handle their early frames and get the means that have
// arrived; the owner is told which shards have become complete. A mean (Store): the outcome takes
// it, the Reducer closes its chunk, the peers that wait for it get it, the streams whose windows it
// opens send more, and the owner is told. A contributor that lies (Refuse): the owner is told, its
// chunks are left out, its streams are closed, and the chunks that are then complete are averaged.
//
// The owner is told of everything by posted tasks, so it may destroy the exchange from any of its
// callbacks.
struct Exchange::State final : ContributorStream::Sink, ReducerStream::Sink {
  State(Env environment, const ExchangeSettings& given,
        std::shared_ptr<const Contribution> contributes, Events told);
  OutcomeBuild::Events OutcomeEvents() const;

  void Begin(const v1::Plan& first);
  void Update(const v1::Plan& next);
  absl::Status CheckKnown(const ExchangePlan& told) const;
  void Adopt(ExchangePlan next);
  void Fail(absl::Status why);
  ExchangeFigures Figures() const;

  // Called by the streams that this peer has dialled.
  void OnResult(const v1::ResultChunk& result, MeasuredChunk mean, const ByteParts& wire) override;
  void OnUnreachable(const std::string& peer, absl::Status why) override;

  // The next functions are called for streams that other peers have dialled.
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened);
  absl::StatusOr<ReducerStream::Sink::Fate> OnContribution(const ReducerStream& stream,
                                                           const v1::ContributionChunk& chunk,
                                                           const SharedBytes& payload) override;
  absl::StatusOr<ReducerStream::Sink::Fate> OnLeaves(const ReducerStream& stream,
                                                     const std::string& leaves) override;
  void Refuse(uint32_t contributor, uint32_t chunk, const absl::Status& why);

  // The averaging on this peer. Every mean, wherever it was made, is stored and sent to the peers
  // that need it.
  void FeedOwnChunks(std::vector<Reducer::Work>* ready);
  void StartWork(std::vector<Reducer::Work> ready);
  void OnReduced(const Reducer::Work& work, const absl::Status& status, Reduced reduced);
  void KeepInputs(const Reducer::Work& work, const Reduced& reduced);
  void Store(uint32_t chunk, ChunkMean mean);

  // The two sides of an audit: giving out inputs, and recomputing means of other peers.
  absl::StatusOr<std::vector<Frame>> Inputs(const v1::InputsRequest& request) const;
  void Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell);

  Env env;
  const ExchangeSettings settings;
  const ChunkForm form;  // of contributions
  const ChunkForm mean_form;
  const std::shared_ptr<const Contribution> contribution;
  const Events events;

  uint64_t version = 0;
  uint64_t epoch = 0;
  bool started = false;
  bool failed = false;
  ExchangePlan plan;
  OutcomeBuild outcome;
  PieceIntake intake;
  Reducer reducer;
  ChunkReduction reduction;  // the same under all revisions that are not brief
  uint64_t averaged = 0;
  bool keeps_inputs = false;  // true if the plan has committed to an audit
  KeptInputs kept;
  ContributorStreams up;
  ReducerStreams down;
  std::unique_ptr<Auditor> auditor;
  CallbackGuard guard;
};

Exchange::State::State(Env environment, const ExchangeSettings& given,
                       std::shared_ptr<const Contribution> contributes, Events told)
    : env(environment),
      settings(given),
      form{given.codec, given.zstd},
      mean_form{given.upper_codec, given.upper_zstd, RoundsMeans(given), given.seed},
      contribution(std::move(contributes)),
      events(std::move(told)),
      outcome(env.executor, given.grid, *given.upper_codec, OutcomeEvents()),
      intake(given.run_id, given.grid, form, mean_form),
      reducer(given.self),
      up(env, settings, form, contribution, plan, outcome, *this),
      down(env, settings, mean_form, plan, outcome, *this) {}

OutcomeBuild::Events Exchange::State::OutcomeEvents() const {
  OutcomeBuild::Events told;
  told.on_complete = events.on_complete;
  told.on_shards_held = events.on_shards_held;
  return told;
}

void Exchange::State::Begin(const v1::Plan& first) {
  version = first.version();
  epoch = first.epoch();
  keeps_inputs = !first.audit_commitment().empty();
  absl::StatusOr<ExchangePlan> made = ExchangePlan::Make(first, settings.grid);
  absl::Status status = made.status();
  if (status.ok() && contribution != nullptr &&
      contribution->chunks.size() != settings.grid.chunks()) {
    status = absl::InvalidArgumentError("the contribution is not cut by the run's grid");
  }
  if (status.ok()) status = CheckKnown(*made);
  if (!status.ok()) return Fail(std::move(status));
  Adopt(*std::move(made));
}

// Fails if the plan is brief although this peer must serve: a peer that averages chunks of others
// must know the roots that they have signed.
absl::Status Exchange::State::CheckKnown(const ExchangePlan& told) const {
  if (!told.brief() || told.servers().count(settings.self) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("round ", told.version(), ": plan of revision ",
                                                 told.revision(),
                                                 ": it is brief, and this peer is to serve by it"));
}

void Exchange::State::Update(const v1::Plan& next) {
  const bool completes = next.revision() == plan.revision() && plan.brief() && !IsBrief(next);
  if (failed || (next.revision() <= plan.revision() && !completes)) return;
  absl::StatusOr<ExchangePlan> made = ExchangePlan::Make(next, settings.grid);
  absl::Status status = made.status();
  if (status.ok()) status = plan.CheckSuccessor(*made);
  if (status.ok() && plan.brief()) status = CheckKnown(*made);
  if (!status.ok()) return env.log.Error(status.message());
  if (completes) {
    plan.Complete(*made);
    reduction = ReductionOf(plan, settings, form, mean_form);
    return;
  }
  if (made->brief() && !plan.brief()) made->Complete(plan);
  Adopt(*std::move(made));
}

void Exchange::State::Adopt(ExchangePlan next) {
  // Drops the means of attempts that have ended.
  down.DropMeans(outcome.Adopt(next));
  for (uint32_t c = 0; c < next.chunks() && started; ++c) {
    if (plan.ShardOf(c).attempt != next.ShardOf(c).attempt) kept.Drop(c);
  }
  up.DropStale(next);
  const bool knew = started && !plan.brief();
  plan = std::move(next);
  if (!knew) reduction = ReductionOf(plan, settings, form, mean_form);
  started = true;
  auditor.reset();
  std::vector<Reducer::Work> ready;
  std::set<uint32_t> ask_again;
  reducer.Update(plan, &ready, &ask_again);
  for (uint32_t c = 0; c < plan.chunks(); ++c) {
    if (outcome.Has(c)) reducer.Close(c);
  }
  FeedOwnChunks(&ready);
  StartWork(std::move(ready));
  for (const uint32_t contributor : ask_again) {
    down.CloseOf(plan.contributors()[contributor].peer,
                 absl::UnavailableError("a new plan: everything is to be sent again"));
  }
  up.Assign();
  down.Resume();
  const absl::Status holding = down.CheckHolding();
  if (!holding.ok()) OnUnreachable(settings.self, holding);
  outcome.TellNews();
}

void Exchange::State::Fail(absl::Status why) {
  if (failed) return;
  failed = true;
  outcome.Stop();
  why = Annotate(why, absl::StrCat("round ", plan.version(), ": exchange failed"));
  env.log.Error(why.message());
  env.executor.Post(guard.Wrap([tell = events.on_failed, why] {
    if (tell) tell(why);
  }));
}

ExchangeFigures Exchange::State::Figures() const {
  ExchangeFigures figures;
  figures.averaged = averaged;
  figures.held_bytes =
      reducer.held_bytes() + outcome.held_bytes() + up.held_bytes() + down.held_bytes();
  figures.kept_bytes = kept.bytes();
  figures.looked_at = up.looked_at();
  return figures;
}

void Exchange::State::OnResult(const v1::ResultChunk& result, MeasuredChunk mean,
                               const ByteParts& wire) {
  const uint32_t chunk = result.chunk();
  // A relay passes the result on in the form in which it arrived.
  const bool relays = plan.RelayNamed(plan.ShardOf(chunk), settings.self) != nullptr;
  if (settings.upper_zstd && relays) down.KeepWire(chunk, wire.Copy());
  ChunkMean known;
  known.attempt = result.attempt();
  known.encoded = std::move(mean.encoded);
  known.squared_norm = mean.squared_norm;
  known.contributors = result.contributors();
  known.partials.assign(result.partials().begin(), result.partials().end());
  Store(chunk, std::move(known));
}

void Exchange::State::OnUnreachable(const std::string& peer, absl::Status why) {
  env.log.Warning(absl::StrCat("round ", plan.version(), ": ", peer, ": ", why.message()));
  env.executor.Post(guard.Wrap([tell = events.on_reducer_unreachable, peer, why] {
    if (tell) tell(peer, why);
  }));
}

void Exchange::State::Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call,
                             absl::Time opened) {
  if (!started || failed) {
    return down.Refuse(std::move(call), absl::FailedPreconditionError("this exchange has failed"));
  }
  down.Accept(open, std::move(call), opened);
}

absl::StatusOr<ReducerStream::Sink::Fate> Exchange::State::OnLeaves(const ReducerStream& stream,
                                                                    const std::string& leaves) {
  // The sender follows a later plan, under which this peer serves. Only that plan names the sender.
  if (plan.brief()) return Fate::kEarly;
  const std::optional<uint32_t> sender = plan.IndexOf(stream.contributor());
  if (!sender.has_value()) {
    return absl::InvalidArgumentError("leaves of a peer that is not a contributor");
  }
  if (reducer.refused(*sender)) return Fate::kNext;
  const absl::Status taken = intake.TakeLeaves(plan, *sender, leaves);
  if (taken.ok()) return Fate::kNext;
  Refuse(*sender, 0, taken);
  return taken;
}

absl::StatusOr<ReducerStream::Sink::Fate> Exchange::State::OnContribution(
    const ReducerStream& stream, const v1::ContributionChunk& chunk, const SharedBytes& payload) {
  using Verdict = Reducer::Verdict;
  if (plan.brief() && chunk.revision() != plan.revision()) {
    return chunk.revision() > plan.revision() ? Fate::kEarly : Fate::kNext;
  }
  const std::optional<uint32_t> sender = plan.IndexOf(stream.contributor());
  if (!sender.has_value()) {
    return absl::InvalidArgumentError("a chunk from a peer that is not a contributor");
  }
  if (reducer.refused(*sender)) return Fate::kNext;
  const auto which = [&] {
    return absl::StrCat("chunk ", chunk.chunk(), " under attempt ", chunk.attempt());
  };
  const auto bad = [&](absl::string_view what) -> absl::Status {
    const absl::Status status = absl::InvalidArgumentError(absl::StrCat(which(), ": ", what));
    Refuse(*sender, chunk.chunk(), status);
    return status;
  };
  absl::StatusOr<Piece> piece = intake.MakePiece(plan, *sender, chunk, payload);
  if (!piece.ok()) return bad(piece.status().message());
  const bool partial = piece->partial;
  std::vector<Reducer::Work> ready;
  const Verdict verdict =
      reducer.Add({chunk.chunk(), chunk.attempt(), chunk.revision()}, *std::move(piece), &ready);
  if (settings.arrivals != nullptr && verdict == Verdict::kTaken && !partial) {
    settings.arrivals->NotePiece(stream.contributor(), chunk.chunk(), env.executor.Now(),
                                 !ready.empty());
  }
  StartWork(std::move(ready));
  if (verdict == Verdict::kForeign) return bad("by the plan it goes to another peer");
  if (verdict == Verdict::kOverlapping) {
    env.log.Warning(absl::StrCat("round ", plan.version(), ": ", which(), " from ",
                                 stream.contributor(),
                                 ": it would count a contributor twice and is not taken"));
  }
  return verdict == Verdict::kEarly ? Fate::kEarly : Fate::kNext;
}

void Exchange::State::Refuse(uint32_t contributor, uint32_t chunk, const absl::Status& why) {
  if (reducer.refused(contributor)) return;
  const std::string& peer = plan.contributors()[contributor].peer;
  env.log.Warning(absl::StrCat("round ", plan.version(), ": contribution of ", peer,
                               " refused: ", why.message()));
  v1::UpdateRefused refused;
  refused.set_version(plan.version());
  refused.set_epoch(plan.epoch());
  refused.set_revision(plan.revision());
  refused.set_contributor(peer);
  refused.set_chunk(chunk);
  refused.set_reason(std::string(why.message()));
  env.executor.Post(guard.Wrap([tell = events.on_refused, refused] {
    if (tell) tell(refused);
  }));
  std::vector<Reducer::Work> ready;
  reducer.Refuse(contributor, &ready);
  down.CloseOf(peer, absl::InvalidArgumentError(why.message()));
  StartWork(std::move(ready));
}

void Exchange::State::FeedOwnChunks(std::vector<Reducer::Work>* ready) {
  if (!up.contributes()) return;
  const uint32_t self = *plan.IndexOf(settings.self);
  const std::string own = SingleBit(plan.contributors().size(), self);
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    if (plan.CollectorOf(shard, self) != settings.self) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (!plan.Brings(self, c)) continue;
      reducer.Add({c, shard.attempt, plan.revision()},
                  Piece{self, own, false, contribution->chunks[c], false}, ready);
    }
  }
}

void Exchange::State::StartWork(std::vector<Reducer::Work> ready) {
  if (ready.empty()) return;
  if (plan.from_centre() && settings.rule.has_value() && settings.centre == nullptr) {
    return Fail(absl::FailedPreconditionError("the mean of the entry before is not here"));
  }
  struct Job {
    Reducer::Work work;
    std::optional<FreshBytes> place;
    absl::Status status;
    Reduced reduced;
  };
  for (Reducer::Work& work : ready) {
    auto job = std::make_shared<Job>();
    job->work = std::move(work);
    if (!job->work.partial) job->place = outcome.Claim(job->work.chunk);
    env.executor.Offload(
        [job, reduce = reduction, keeps = keeps_inputs] {
          job->status = reduce(job->work.chunk, job->work.partial, job->work.pieces,
                               std::exchange(job->place, std::nullopt), &job->reduced);
          if (!keeps) job->work.pieces.clear();
        },
        guard.Wrap([this, job] { OnReduced(job->work, job->status, std::move(job->reduced)); }));
  }
}

void Exchange::State::OnReduced(const Reducer::Work& work, const absl::Status& status,
                                Reduced reduced) {
  ++averaged;
  for (const auto& [contributor, why] : reduced.refused) {
    Refuse(contributor, work.chunk, Annotate(why, absl::StrCat("chunk ", work.chunk)));
  }
  // A relay may already have the result, if the reducer did not wait for its partial mean.
  if (!reducer.Current(work) || outcome.Has(work.chunk)) return;
  if (!status.ok()) return Fail(Annotate(status, absl::StrCat("chunk ", work.chunk)));
  KeepInputs(work, reduced);
  if (work.partial) {
    return up.SendPartial(work.chunk, work.attempt, std::move(reduced.wire),
                          std::move(reduced.contributors));
  }
  if (settings.upper_zstd) down.KeepWire(work.chunk, std::move(reduced.wire));
  ChunkMean mean;
  mean.attempt = work.attempt;
  mean.encoded = std::move(reduced.encoded);
  mean.squared_norm = reduced.squared_norm;
  mean.contributors = std::move(reduced.contributors);
  mean.partials = std::move(reduced.partials);
  Store(work.chunk, std::move(mean));
}

void Exchange::State::KeepInputs(const Reducer::Work& work, const Reduced& reduced) {
  if (!keeps_inputs) return;
  std::vector<Piece> taken;
  for (const Piece& piece : work.pieces) {
    const bool refused = std::any_of(reduced.refused.begin(), reduced.refused.end(),
                                     [&](const auto& one) { return one.first == piece.sender; });
    if (!refused) taken.push_back(piece);
  }
  kept.Keep(work.chunk, work.attempt, std::move(taken));
}

void Exchange::State::Store(uint32_t chunk, ChunkMean mean) {
  const uint32_t attempt = mean.attempt;
  outcome.Store(chunk, std::move(mean));
  reducer.Close(chunk);
  down.Offer(chunk, attempt);
  up.OnMean(chunk);
  outcome.TellNews();
}

absl::StatusOr<std::vector<Frame>> Exchange::State::Inputs(const v1::InputsRequest& request) const {
  if (!started || request.run_id() != settings.run_id || request.version() != version ||
      request.epoch() != epoch) {
    return absl::FailedPreconditionError(absl::StrCat("this peer is in round ", version));
  }
  // The leaves of this peer's own contribution come from no stream.
  return kept.Answer(request, plan, form, [this](uint32_t contributor) {
    const PieceIntake::Leaves* const leaves = intake.LeavesOf(contributor);
    if (leaves != nullptr) return KeptInputs::Proof{leaves->bytes, &leaves->pages};
    if (contribution == nullptr) return KeptInputs::Proof();
    return KeptInputs::Proof{contribution->leaves, &contribution->pages};
  });
}

void Exchange::State::Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell) {
  if (failed || order.version() != version || order.epoch() != epoch ||
      order.revision() != plan.revision()) {
    return;
  }
  std::map<uint32_t, ChunkMean> means;
  for (const uint32_t chunk : order.chunks()) {
    if (chunk < plan.chunks() && outcome.Has(chunk)) means[chunk] = outcome.at(chunk);
  }
  if (auditor == nullptr) {
    auditor = std::make_unique<Auditor>(
        env, settings, Auditor::Basis{plan, form, mean_form, reduction}, std::move(tell));
  }
  auditor->Take(order, std::move(means));
}

Exchange::Exchange(Env env, const ExchangeSettings& settings, const v1::Plan& plan,
                   std::shared_ptr<const Contribution> contribution, Events events)
    : state_(std::make_shared<State>(env, settings, std::move(contribution), std::move(events))) {
  state_->Begin(plan);
}

Exchange::~Exchange() = default;

void Exchange::Update(const v1::Plan& plan) { state_->Update(plan); }

void Exchange::Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened) {
  state_->Accept(open, std::move(call), opened);
}

absl::StatusOr<std::vector<Frame>> Exchange::Inputs(const v1::InputsRequest& request) const {
  return state_->Inputs(request);
}

void Exchange::Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell) {
  state_->Audit(order, std::move(tell));
}

uint64_t Exchange::version() const { return state_->version; }
uint64_t Exchange::epoch() const { return state_->epoch; }
ExchangeFigures Exchange::figures() const { return state_->Figures(); }

struct ExchangeServer::State {
  struct Waiting {
    std::unique_ptr<Call> call;
    std::string caller;  // empty if the connection is plain text
    bool opened = false;
    v1::ExchangeOpen open;
    absl::Time opened_at;
  };

  State(Env environment, std::string run, absl::Duration timeout)
      : env(environment),
        run_id(std::move(run)),
        failure_timeout(timeout),
        refusals(environment.executor) {}

  void Accept(std::unique_ptr<Call> call);
  void OnOpen(uint64_t number, const Frame& frame);
  void Route(uint64_t number);
  void Refuse(uint64_t number, absl::Status why);
  void SetCurrent(Exchange* exchange);
  bool Full(bool opened, const std::string& caller) const;

  Env env;
  const std::string run_id;
  const absl::Duration failure_timeout;

  Exchange* current = nullptr;
  Key newest = {0, 0};  // the newest key of all exchanges that were current
  uint64_t accepted = 0;
  std::map<uint64_t, Waiting> waiting;  // in the order of arrival
  Refusals refusals;
  CallbackGuard guard;
};

void ExchangeServer::State::Accept(std::unique_ptr<Call> call) {
  const uint64_t number = ++accepted;
  auto started = std::make_unique<StartedCall>(env.executor, std::move(call));
  Call* const raw = started.get();
  const std::optional<Identity> identity = raw->identity();
  const std::string caller = identity ? identity->id : "";
  const bool full = Full(false, caller);
  Waiting& stream = waiting[number];
  stream.call = std::move(started);
  stream.caller = caller;
  if (full) return Refuse(number, absl::ResourceExhaustedError("too many streams without an Open"));
  Call::Events events;
  events.on_frame = guard.Wrap([this, number](Frame frame) { OnOpen(number, frame); });
  events.on_closed = guard.Wrap([this, number](absl::Status) {
    // The call must not be destroyed inside its own callback.
    env.executor.Post(guard.Wrap([this, number] { waiting.erase(number); }));
  });
  raw->Start(std::move(events));
  raw->Read();
  env.executor.RunAfter(failure_timeout, guard.Wrap([this, number] {
    const auto found = waiting.find(number);
    if (found == waiting.end()) return;
    Refuse(number, absl::FailedPreconditionError(found->second.opened
                                                     ? "the plan of its entry has not arrived here"
                                                     : "its Open has not arrived"));
  }));
}

// Returns true if one more stream would be too many, of all callers or of this one.
bool ExchangeServer::State::Full(bool opened, const std::string& caller) const {
  size_t all = 0;
  size_t own = 0;
  for (const auto& [number, stream] : waiting) {
    if (stream.opened != opened) continue;
    ++all;
    own += !caller.empty() && stream.caller == caller ? 1 : 0;
  }
  return all >= kMaxWaiting || own >= kMostCallsOfOne;
}

void ExchangeServer::State::OnOpen(uint64_t number, const Frame& frame) {
  const auto found = waiting.find(number);
  if (found == waiting.end()) return;
  v1::ToReducer message;
  const absl::Status status = Unpack(frame, &message);
  if (!status.ok() || !message.has_open()) {
    return Refuse(number, absl::InvalidArgumentError("a stream begins with an Open"));
  }
  if (message.open().run_id() != run_id) {
    return Refuse(number, absl::InvalidArgumentError(
                              absl::StrCat("this peer is in run ", run_id, ", not in run ",
                                           message.open().run_id().substr(0, 64))));
  }
  const std::string& caller = found->second.caller;
  if (!caller.empty() && caller != message.open().contributor()) {
    return Refuse(number, absl::PermissionDeniedError(
                              absl::StrCat("peer ", caller, " opens a stream of ",
                                           message.open().contributor().substr(0, 64))));
  }
  const bool full = Full(true, caller);
  found->second.opened = true;
  found->second.open = std::move(*message.mutable_open());
  found->second.opened_at = env.executor.Now();
  Route(number);
  if (full && waiting.count(number) != 0) {
    Refuse(number, absl::ResourceExhaustedError("too many streams wait for their plan"));
  }
}

// Hands the stream on or refuses it; leaves it waiting if its plan may still come.
void ExchangeServer::State::Route(uint64_t number) {
  const auto found = waiting.find(number);
  const Key key(found->second.open.epoch(), found->second.open.version());
  if (current != nullptr && key == newest) {
    auto node = waiting.extract(found);
    Waiting& stream = node.mapped();
    return current->Accept(stream.open, std::move(stream.call), stream.opened_at);
  }
  if (key < newest) {
    return Refuse(number, absl::FailedPreconditionError(
                              absl::StrCat("round ", key.second, " of epoch ", key.first,
                                           " is over; this peer is in round ", newest.second,
                                           " of epoch ", newest.first)));
  }
}

void ExchangeServer::State::Refuse(uint64_t number, absl::Status why) {
  auto node = waiting.extract(number);
  refusals.Refuse(std::move(node.mapped().call), std::move(why));
}

void ExchangeServer::State::SetCurrent(Exchange* exchange) {
  current = exchange;
  if (current == nullptr) return;
  newest = std::max(newest, Key(current->epoch(), current->version()));
  std::vector<uint64_t> numbers;
  for (const auto& [number, stream] : waiting) {
    if (stream.opened) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) Route(number);
}

ExchangeServer::ExchangeServer(Env env, std::string run_id, absl::Duration failure_timeout)
    : state_(std::make_shared<State>(env, std::move(run_id), failure_timeout)) {}

ExchangeServer::~ExchangeServer() = default;

void ExchangeServer::Accept(std::unique_ptr<Call> call) { state_->Accept(std::move(call)); }

void ExchangeServer::SetCurrent(Exchange* exchange) { state_->SetCurrent(exchange); }

}  // namespace atolld
