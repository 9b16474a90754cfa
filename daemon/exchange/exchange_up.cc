// Exchange::State towards whom it dials: the reducers, relays and holders of its chunks.
#include <algorithm>
#include <limits>
#include <utility>

#include "compression/base/status_macros.h"
#include "daemon/exchange/exchange_state.h"
#include "membership/history/bitmap.h"

namespace atolld {

bool Exchange::State::Contributes() const {
  return contribution != nullptr && plan.IndexOf(settings.self).has_value();
}

void Exchange::State::AssignStreams() {
  using Sends = ContributorStream::Sends;
  std::map<StreamKey, std::vector<ContributorStream::Chunk>> assigned;
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    const auto add = [&](absl::string_view peer, Sends sends) {
      for (uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunks; ++c) {
        const Lane lane = {c % settings.lanes, settings.lanes};
        assigned[{std::string(peer), lane}].push_back({c, shard.attempt, sends});
      }
    };
    if (shard.chunks == 0) continue;
    const absl::string_view source = plan.SourceOf(shard, settings.self);
    absl::string_view target;
    Sends sends = Sends::kNothing;
    if (Contributes()) {
      target = plan.TargetOf(shard, *plan.IndexOf(settings.self));
      const bool relays = plan.RelayNamed(shard, settings.self) != nullptr;
      sends = relays ? Sends::kPartialMean : Sends::kOwnChunk;
    }
    // They differ for a reducer that is in a relay's group, and where nothing is to be sent.
    if (!target.empty()) add(target, sends);
    if (!source.empty() && source != target) add(source, Sends::kNothing);
  }
  for (auto it = up.begin(); it != up.end();) {
    it = assigned.count(it->first) == 0 ? up.erase(it) : std::next(it);
  }
  for (auto& [key, chunks] : assigned) {
    const auto& [peer, lane] = key;
    std::unique_ptr<ContributorStream>& stream = up[key];
    if (stream == nullptr) {
      stream = std::make_unique<ContributorStream>(env, settings, peer, lane, *this);
    }
    stream->Assign(plan.AddressOf(peer), std::move(chunks));
  }
}

v1::ExchangeOpen Exchange::State::MakeOpen() {
  v1::ExchangeOpen open;
  open.set_run_id(settings.run_id);
  open.set_version(plan.version());
  open.set_epoch(plan.epoch());
  open.set_contributor(settings.self);
  std::string received(BitmapBytes(plan.chunks()), '\0');
  for (uint32_t c = 0; c < plan.chunks(); ++c) {
    if (HasResult(c)) SetBit(&received, c);
  }
  open.set_received(std::move(received));
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    open.add_received_attempts(shard.attempt);
  }
  return open;
}

absl::string_view Exchange::State::Leaves() const { return contribution->leaves; }

// Every line carries chunks of all shards and means of all: a shard that runs ahead takes it from
// the others, and stands finished while they take as long again. Streams to relays carry several
// shards one after the other, and partial means: their shares say nothing of each other.
double Exchange::State::ReachOfOthers(const ContributorStream& stream) const {
  double reach = std::numeric_limits<double>::infinity();
  if (plan.has_relays()) return reach;
  for (const auto& [key, other] : up) {
    if (other.get() != &stream) reach = std::min(reach, other->Reach());
  }
  return reach;
}

bool Exchange::State::PrepareContribution(const ContributorStream::Chunk& chunk) {
  if (chunk.sends == ContributorStream::Sends::kPartialMean) {
    return partials.count(chunk.chunk) != 0;
  }
  return !settings.zstd || !own_wire[chunk.chunk].empty() || CompressOwnChunk(chunk.chunk);
}

// False: under way.
bool Exchange::State::CompressOwnChunk(uint32_t chunk) {
  if (!compressing.insert(chunk).second) return false;
  auto wire = std::make_shared<SharedBytes>();
  env.executor.Offload([wire, form = form, contribution = contribution,
                        chunk] { *wire = form.ToWire(contribution->chunks[chunk]); },
                       guard.Wrap([this, wire, chunk] {
                         compressing.erase(chunk);
                         if (!HasResult(chunk)) own_wire[chunk] = *wire;
                         for (const auto& [key, stream] : up) stream->Pump();
                       }));
  return false;
}

Frame Exchange::State::TakeContributionFrame(const ContributorStream::Chunk& chunk) {
  v1::ToReducer message;
  v1::ContributionChunk* const head = message.mutable_chunk();
  head->set_attempt(chunk.attempt);
  head->set_chunk(chunk.chunk);
  head->set_revision(plan.revision());
  if (chunk.sends == ContributorStream::Sends::kPartialMean) {
    const Partial& partial = partials.at(chunk.chunk);
    head->set_contributors(partial.contributors);
    return Pack(message, partial.wire);
  }
  if (!settings.zstd) return Pack(message, contribution->chunks[chunk.chunk]);
  return Pack(message, std::exchange(own_wire[chunk.chunk], SharedBytes()));
}

ContributorStream::Owner::Fate Exchange::State::Judge(const std::string& from,
                                                      const v1::ResultChunk& result) const {
  using Fate = ContributorStream::Owner::Fate;
  if (result.chunk() >= plan.chunks()) return Fate::kBad;
  const ExchangePlan::Shard& shard = plan.ShardOf(result.chunk());
  if (result.attempt() > shard.attempt) return Fate::kEarly;
  if (result.attempt() < shard.attempt) return Fate::kUnwanted;
  if (plan.SourceOf(shard, settings.self) != from) {
    if (result.revision() > plan.revision()) return Fate::kEarly;
    return result.revision() == plan.revision() ? Fate::kBad : Fate::kPassedOver;
  }
  if (HasResult(result.chunk())) return Fate::kUnwanted;
  const size_t contributors = plan.contributors().size();
  const bool sane = ValidBitmap(result.contributors(), contributors) &&
                    ValidParts(result.partials(), result.contributors(), contributors);
  return sane ? Fate::kWanted : Fate::kBad;
}

void Exchange::State::OnResult(const std::string&, const v1::ResultChunk& result,
                               MeasuredChunk mean, const ByteParts& wire) {
  const uint32_t chunk = result.chunk();
  // A relay hands on what it got.
  const bool relays = plan.RelayNamed(plan.ShardOf(chunk), settings.self) != nullptr;
  if (settings.upper_zstd && relays) result_wire[chunk] = wire.Copy();
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

}  // namespace atolld
