#include "daemon/exchange/exchange_state.h"

#include <algorithm>
#include <utility>

#include "daemon/status_macros.h"

namespace atolld {
namespace {

// Streams of peers that the plan does not name: stragglers that only receive.
constexpr size_t kMaxGuests = 64;

bool IsPeerId(absl::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

Exchange::State::State(Env environment, const ExchangeSettings& given,
                       std::shared_ptr<const Contribution> contributes, Events told)
    : env(environment),
      settings(given),
      form{given.codec, given.zstd},
      contribution(std::move(contributes)),
      events(std::move(told)),
      reducer(given.self),
      means(given.grid.chunks()),
      missing(given.grid.chunks()),
      result_wire(given.grid.chunks()),
      own_wire(given.grid.chunks()),
      refusals(environment.executor) {}

void Exchange::State::Update(const v1::Plan& next) {
  if (failed || next.revision() <= plan.revision()) return;
  absl::StatusOr<ExchangePlan> made = ExchangePlan::Make(next, settings.grid);
  absl::Status status = made.status();
  if (status.ok()) status = plan.CheckSuccessor(*made);
  if (!status.ok()) return env.log.Error(status.message());
  Adopt(*std::move(made));
}

void Exchange::State::Adopt(ExchangePlan next) {
  DropStaleMeans(next);
  plan = std::move(next);
  started = true;
  std::vector<Reducer::Work> ready;
  reducer.Update(plan, &ready);
  FeedOwnChunks(&ready);
  StartWork(std::move(ready));
  AssignStreams();
  for (const auto& [peer, stream] : down) stream->Resume();
  CompleteIfAllHere();
}

void Exchange::State::DropStaleMeans(const ExchangePlan& next) {
  for (uint32_t c = 0; c < means.size(); ++c) {
    if (means[c].attempt == 0 || means[c].attempt == next.ShardOf(c).attempt) continue;
    means[c] = ChunkMean();
    result_wire[c] = SharedBytes();
    ++missing;
  }
}

bool Exchange::State::Contributes() const {
  return contribution != nullptr && plan.IndexOf(settings.self).has_value();
}

void Exchange::State::FeedOwnChunks(std::vector<Reducer::Work>* ready) {
  if (!Contributes()) return;
  const uint32_t self = *plan.IndexOf(settings.self);
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    if (shard.reducer != settings.self) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      reducer.Add(c, shard.attempt, Piece{self, contribution->chunks[c], false}, ready);
    }
  }
}

void Exchange::State::AssignStreams() {
  for (auto it = up.begin(); it != up.end();) {
    it = plan.reducers().count(it->first) == 0 ? up.erase(it) : std::next(it);
  }
  for (const std::string& peer : plan.reducers()) {
    if (peer == settings.self) continue;
    std::vector<ContributorStream::Chunk> chunks;
    for (const ExchangePlan::Shard& shard : plan.shards()) {
      if (shard.reducer != peer) continue;
      for (uint32_t i = 0; i < shard.chunks; ++i) {
        chunks.push_back({shard.first_chunk + i, shard.attempt});
      }
    }
    std::unique_ptr<ContributorStream>& stream = up[peer];
    if (stream == nullptr) {
      stream = std::make_unique<ContributorStream>(env, settings, peer, *this);
    }
    stream->Assign(plan.AddressOf(peer), std::move(chunks), Contributes());
  }
}

v1::ExchangeOpen Exchange::State::MakeOpen() {
  v1::ExchangeOpen open;
  open.set_run_id(settings.run_id);
  open.set_version(plan.version());
  open.set_epoch(plan.epoch());
  open.set_contributor(settings.self);
  std::string received((means.size() + 7) / 8, '\0');
  for (uint32_t c = 0; c < means.size(); ++c) {
    if (HasResult(c)) SetBitAt(c, &received);
  }
  open.set_received(std::move(received));
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    open.add_received_attempts(shard.attempt);
  }
  return open;
}

const SharedBytes* Exchange::State::WireChunk(uint32_t chunk) {
  if (!settings.zstd) return &contribution->chunks[chunk];
  if (!own_wire[chunk].empty()) return &own_wire[chunk];
  if (!compressing.insert(chunk).second) return nullptr;
  auto wire = std::make_shared<SharedBytes>();
  env.executor.Offload([wire, form = form, contribution = contribution,
                        chunk] { *wire = form.ToWire(contribution->chunks[chunk]); },
                       guard.Wrap([this, wire, chunk] {
                         compressing.erase(chunk);
                         if (HasResult(chunk)) return;
                         own_wire[chunk] = *wire;
                         const auto stream = up.find(plan.ShardOf(chunk).reducer);
                         if (stream != up.end()) stream->second->Pump();
                       }));
  return nullptr;
}

ContributorStream::Owner::Fate Exchange::State::Judge(const std::string& from,
                                                      const v1::ResultChunk& result) const {
  using Fate = ContributorStream::Owner::Fate;
  if (result.chunk() >= means.size()) return Fate::kBad;
  const ExchangePlan::Shard& shard = plan.ShardOf(result.chunk());
  if (result.attempt() > shard.attempt) return Fate::kEarly;
  if (result.attempt() < shard.attempt) return Fate::kUnwanted;
  if (shard.reducer != from) return Fate::kBad;
  if (HasResult(result.chunk())) return Fate::kUnwanted;
  const bool sane = IsContributorSet(result.contributors(), plan.contributors().size());
  return sane ? Fate::kWanted : Fate::kBad;
}

void Exchange::State::OnResult(const std::string& from, const v1::ResultChunk& result,
                               SharedBytes encoded) {
  // The plan may have moved on while the pool looked at it.
  if (Judge(from, result) != ContributorStream::Owner::Fate::kWanted) return;
  Store(result.chunk(), {result.attempt(), std::move(encoded), result.contributors()});
}

void Exchange::State::OnUnreachable(const std::string& peer, absl::Status why) {
  env.log.Warning(absl::StrCat("round ", plan.version(), ": reducer ", peer, ": ", why.message()));
  env.executor.Post(guard.Wrap([tell = events.on_reducer_unreachable, peer, why] {
    if (tell) tell(peer, why);
  }));
}

void Exchange::State::Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call) {
  absl::Status refusal;
  if (!started || failed) refusal = absl::FailedPreconditionError("this exchange has failed");
  if (!IsPeerId(open.contributor()) || open.contributor() == settings.self) {
    refusal = absl::InvalidArgumentError("its contributor's name is not that of another peer");
  }
  const size_t most = plan.contributors().size() + plan.reducers().size() + kMaxGuests;
  if (down.count(open.contributor()) == 0 && down.size() >= most) {
    refusal = absl::ResourceExhaustedError("too many streams");
  }
  if (!refusal.ok()) return refusals.Refuse(std::move(call), refusal);
  // A second stream of a peer takes the place of the first: it has redialled before the break was
  // seen here.
  std::unique_ptr<ReducerStream>& stream = down[open.contributor()];
  stream =
      std::make_unique<ReducerStream>(env, settings, open.contributor(), std::move(call), *this);
  MarkWhatIsThere(open, stream.get());
  for (uint32_t c = 0; c < means.size(); ++c) {
    if (HasResult(c) && plan.ShardOf(c).reducer == settings.self) {
      stream->Offer(c, means[c].attempt);
    }
  }
}

void Exchange::State::MarkWhatIsThere(const v1::ExchangeOpen& open, ReducerStream* stream) const {
  if (open.received_attempts_size() != static_cast<int>(plan.shards().size())) return;
  for (size_t i = 0; i < plan.shards().size(); ++i) {
    const ExchangePlan::Shard& shard = plan.shards()[i];
    if (shard.attempt != open.received_attempts(static_cast<int>(i))) continue;
    for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
      if (BitAt(open.received(), c)) stream->MarkHeld(c, shard.attempt);
    }
  }
}

absl::StatusOr<ReducerStream::Owner::Fate> Exchange::State::OnContribution(
    const ReducerStream& stream, const v1::ContributionChunk& chunk, const SharedBytes& payload) {
  using Fate = ReducerStream::Owner::Fate;
  const std::optional<uint32_t> contributor = plan.IndexOf(stream.contributor());
  if (!contributor.has_value()) {
    return absl::InvalidArgumentError("a chunk from a peer that is no contributor");
  }
  if (reducer.refused(*contributor)) return Fate::kNext;
  const auto bad = [&](absl::string_view what) -> absl::Status {
    const absl::Status status = absl::InvalidArgumentError(
        absl::StrCat("chunk ", chunk.chunk(), " under attempt ", chunk.attempt(), ": ", what));
    Refuse(*contributor, status);
    return status;
  };
  if (chunk.chunk() >= means.size()) return bad("it lies outside the grid");
  const uint32_t elements = settings.grid.Elements(chunk.chunk());
  if (payload.empty() || payload.size() > form.MaxWireBytes(elements)) {
    return bad(absl::StrCat("it has ", payload.size(), " bytes"));
  }
  std::vector<Reducer::Work> ready;
  const Reducer::Verdict verdict =
      reducer.Add(chunk.chunk(), chunk.attempt(), Piece{*contributor, payload, true}, &ready);
  StartWork(std::move(ready));
  if (verdict == Reducer::Verdict::kForeign) return bad("another peer reduces it");
  return verdict == Reducer::Verdict::kEarly ? Fate::kEarly : Fate::kNext;
}

std::optional<Frame> Exchange::State::ResultFrame(uint32_t chunk, uint32_t attempt) const {
  const ChunkMean& mean = means[chunk];
  if (mean.attempt != attempt || result_wire[chunk].empty()) return std::nullopt;
  v1::FromReducer message;
  message.mutable_chunk()->set_attempt(attempt);
  message.mutable_chunk()->set_chunk(chunk);
  message.mutable_chunk()->set_contributors(mean.contributors);
  return Pack(message, result_wire[chunk]);
}

void Exchange::State::OnGone(ReducerStream* stream) {
  const auto found = down.find(stream->contributor());
  if (found != down.end() && found->second.get() == stream) down.erase(found);
}

void Exchange::State::StartWork(std::vector<Reducer::Work> ready) {
  if (ready.empty()) return;
  auto weights = std::make_shared<std::vector<float>>();
  for (const auto& contributor : plan.contributors()) weights->push_back(contributor.weight);
  struct Job {
    Reducer::Work work;
    absl::Status status;
    Reduced reduced;
  };
  for (Reducer::Work& work : ready) {
    auto job = std::make_shared<Job>();
    job->work = std::move(work);
    const uint32_t elements = settings.grid.Elements(job->work.chunk);
    env.executor.Offload(
        [job, weights, elements, form = form] {
          job->status = Reduce(form, elements, *weights, job->work.pieces, &job->reduced);
          job->work.pieces.clear();
        },
        guard.Wrap([this, job] { OnReduced(job->work, job->status, std::move(job->reduced)); }));
  }
}

void Exchange::State::OnReduced(const Reducer::Work& work, const absl::Status& status,
                                Reduced reduced) {
  for (const auto& [contributor, why] : reduced.refused) {
    Refuse(contributor, Annotate(why, absl::StrCat("chunk ", work.chunk)));
  }
  if (!reducer.Current(work.chunk, work.attempt)) return;
  if (!status.ok()) return Fail(Annotate(status, absl::StrCat("chunk ", work.chunk)));
  result_wire[work.chunk] = std::move(reduced.wire);
  Store(work.chunk, {work.attempt, std::move(reduced.encoded), std::move(reduced.contributors)});
  for (const auto& [peer, stream] : down) stream->Offer(work.chunk, work.attempt);
}

void Exchange::State::Refuse(uint32_t contributor, const absl::Status& why) {
  if (reducer.refused(contributor)) return;
  const std::string& peer = plan.contributors()[contributor].peer;
  env.log.Warning(absl::StrCat("round ", plan.version(), ": contribution of ", peer,
                               " refused: ", why.message()));
  std::vector<Reducer::Work> ready;
  reducer.Refuse(contributor, &ready);
  const auto stream = down.find(peer);
  if (stream != down.end()) stream->second->Close(absl::InvalidArgumentError(why.message()));
  StartWork(std::move(ready));
}

void Exchange::State::Store(uint32_t chunk, ChunkMean mean) {
  means[chunk] = std::move(mean);
  own_wire[chunk] = SharedBytes();
  --missing;
  CompleteIfAllHere();
}

void Exchange::State::CompleteIfAllHere() {
  if (missing != 0 || failed || assembling == plan.revision()) return;
  assembling = plan.revision();
  auto outcome = std::make_shared<ExchangeOutcome>();
  env.executor.Offload([outcome, plan = plan, means = means] { *outcome = Assemble(plan, means); },
                       guard.Wrap([this, outcome] {
                         if (failed || outcome->revision != plan.revision()) return;
                         const auto tell = events.on_complete;  // it may destroy this
                         if (tell) tell(std::move(*outcome));
                       }));
}

void Exchange::State::Fail(absl::Status why) {
  if (failed) return;
  failed = true;
  why = Annotate(why, absl::StrCat("round ", plan.version(), ": exchange failed"));
  env.log.Error(why.message());
  env.executor.Post(guard.Wrap([tell = events.on_failed, why] {
    if (tell) tell(why);
  }));
}

}  // namespace atolld
