#include "daemon/exchange/exchange_state.h"

#include <utility>

#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

bool RoundsMeans(const ExchangeSettings& settings) {
  if (Planted(PlantedBug::kMeansRoundedAsUpdates) && !settings.codec->has_stochastic_rounding()) {
    return false;
  }
  return settings.stochastic && settings.upper_codec->has_stochastic_rounding();
}

}  // namespace

Exchange::State::State(Env environment, const ExchangeSettings& given,
                       std::shared_ptr<const Contribution> contributes, Events told)
    : env(environment),
      settings(given),
      form{given.codec, given.zstd},
      mean_form{given.upper_codec, given.upper_zstd, RoundsMeans(given), given.seed},
      contribution(std::move(contributes)),
      events(std::move(told)),
      reducer(given.self),
      build(environment.executor, given.grid, *given.upper_codec),
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
  DropStale(next);
  plan = std::move(next);
  started = true;
  auditor.reset();
  std::vector<Reducer::Work> ready;
  std::set<uint32_t> ask_again;
  reducer.Update(plan, &ready, &ask_again);
  for (uint32_t c = 0; c < plan.chunks(); ++c) {
    if (table.Has(c)) reducer.Close(c);
  }
  FeedOwnChunks(&ready);
  StartWork(std::move(ready));
  for (const uint32_t contributor : ask_again) {
    CloseStreamsOf(plan.contributors()[contributor].peer,
                   absl::UnavailableError("a new plan: everything is to be sent again"));
  }
  AssignStreams();
  for (const auto& [key, stream] : down) {
    stream->Resume();
    OfferAll(stream.get());
  }
  ReportLackAsHolder();
  CompleteIfAllHere();
}

// What belongs to an attempt that is over, or to a relay that is none any more.
void Exchange::State::DropStale(const ExchangePlan& next) {
  std::vector<uint32_t> dropped;
  table.Adopt(next, &dropped);
  for (const uint32_t chunk : dropped) result_wire[chunk] = SharedBytes();
  if (!dropped.empty()) build.GiveUp();
  for (uint32_t c = 0; c < next.chunks() && started; ++c) {
    if (plan.ShardOf(c).attempt != next.ShardOf(c).attempt) kept.Drop(c);
  }
  for (auto it = partials.begin(); it != partials.end();) {
    const ExchangePlan::Shard& shard = next.ShardOf(it->first);
    const bool stands =
        it->second.attempt == shard.attempt && next.RelayNamed(shard, settings.self) != nullptr;
    it = stands ? std::next(it) : partials.erase(it);
  }
}

void Exchange::State::Store(uint32_t chunk, ChunkMean mean) {
  const uint32_t attempt = mean.attempt;
  build.Take(chunk, mean.encoded);
  table.Store(chunk, std::move(mean));
  own_wire[chunk] = SharedBytes();
  partials.erase(chunk);
  reducer.Close(chunk);
  const ExchangePlan::Shard& shard = plan.ShardOf(chunk);
  for (const auto& [key, stream] : down) {
    if (plan.SourceOf(shard, key.first) == settings.self) stream->Offer(chunk, attempt);
  }
  for (const auto& [key, stream] : up) stream->OnMean(chunk);
  for (const auto& [key, stream] : up) stream->Pump();
  TellShardsHeld();
  CompleteIfAllHere();
}

void Exchange::State::TellShardsHeld() {
  if (!table.news() || telling_held) return;
  telling_held = true;
  env.executor.Post(guard.Wrap([this] {
    telling_held = false;
    std::vector<MeanTable::ShardAttempt> shards = table.TakeWholeShards();
    const auto tell = events.on_shards_held;  // it may destroy this
    if (tell && !failed && !shards.empty()) tell(std::move(shards));
  }));
}

// One assembly at a time; a revision under which no mean has changed takes the payload there is.
void Exchange::State::CompleteIfAllHere() {
  if (!table.whole() || failed || assembling || told_revision == plan.revision()) return;
  if (outcome.has_value() && outcome_changes == table.changes()) {
    told_revision = plan.revision();
    env.executor.Post(guard.Wrap([this, revision = told_revision] {
      if (failed || revision != plan.revision()) return;
      ExchangeOutcome told = *outcome;
      told.revision = revision;
      told.shards = Records(plan, table.means());  // an empty shard may have changed hands
      const auto tell = events.on_complete;        // it may destroy this
      if (tell) tell(std::move(told));
    }));
    return;
  }
  assembling = true;
  if (!build.given_up()) {
    return build.Finish([this, changes = table.changes()](ExchangeOutcome made) {
      assembling = false;
      OnAssembled(changes, std::move(made));
    });
  }
  auto made = std::make_shared<ExchangeOutcome>();
  env.executor.Offload(
      [made, plan = plan, means = table.means()]() mutable {
        *made = Assemble(plan, means);
        means.clear();
      },
      guard.Wrap([this, made, changes = table.changes()] {
        assembling = false;
        OnAssembled(changes, std::move(*made));
      }));
}

void Exchange::State::OnAssembled(uint64_t changes, ExchangeOutcome made) {
  // No payload: the build has ended meanwhile.
  if (changes == table.changes() && !made.payload.empty()) {
    outcome = std::move(made);
    outcome->squared_mean = SquaredMean(table.means());
    outcome_changes = changes;
    table.LeanOn(outcome->payload);
  }
  CompleteIfAllHere();
}

ExchangeFigures Exchange::State::Figures() const {
  ExchangeFigures figures;
  figures.averaged = averaged;
  figures.held_bytes = reducer.held_bytes() + table.held_bytes();
  for (const auto& [chunk, partial] : partials) figures.held_bytes += partial.wire.size();
  for (const SharedBytes& wire : result_wire) figures.held_bytes += wire.size();
  for (const SharedBytes& wire : own_wire) figures.held_bytes += wire.size();
  figures.kept_bytes = kept.bytes();
  return figures;
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
