#include "tests/unit/daemon/exchange/swarm.h"

#include <algorithm>
#include <utility>

#include "absl/base/casts.h"
#include "compression/base/check.h"
#include "daemon/exchange/chunk_work.h"
#include "gtest/gtest.h"
#include "membership/history/mean_records.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

bool Bit(const std::string& bitmap, size_t bit) {
  return ((static_cast<uint8_t>(bitmap[bit / 8]) >> (bit % 8)) & 1) != 0;
}

struct Sets {
  std::string contributors;
  std::vector<std::string> partials;
};

// By its own reading of the records.
Sets SetsOf(const ExchangeOutcome& outcome, uint32_t chunk) {
  for (const v1::ShardRecord& shard : outcome.records.shards()) {
    uint32_t end = shard.first_chunk();
    for (const v1::ChunkRun& run : shard.runs()) {
      end += run.chunks();
      if (chunk < shard.first_chunk() || chunk >= end) continue;
      const v1::ContributorSet& set = outcome.records.sets(static_cast<int>(run.set()));
      return {set.contributors(), {set.partials().begin(), set.partials().end()}};
    }
  }
  return {};
}

// The oracle's mean: plain loops over decoded values, in the order given.
struct WeightedPiece {
  size_t lowest;  // contributor
  float weight;
  std::vector<float> values;
  float scale = 1;
};

std::vector<float> MeanOf(const std::vector<WeightedPiece>& pieces, float* total) {
  std::vector<float> sum(pieces[0].values.size(), 0.0f);
  *total = 0;
  for (const WeightedPiece& piece : pieces) {
    const float pull = piece.weight * piece.scale;
    for (size_t k = 0; k < sum.size(); ++k) sum[k] = sum[k] + pull * piece.values[k];
    *total = *total + piece.weight;
  }
  const float factor = 1.0f / *total;
  for (float& value : sum) value = value * factor;
  return sum;
}

std::vector<uint8_t> EncodedMean(const Codec& codec, const Rounding& rounding,
                                 const std::vector<float>& mean) {
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(mean.size()));
  bytes.resize((rounding.stochastic
                    ? codec.EncodeStochastic(mean, rounding.key, absl::MakeSpan(bytes))
                    : codec.EncodeMean(mean, absl::MakeSpan(bytes)))
                   .value());
  return bytes;
}

std::vector<float> Decoded(const Codec& codec, absl::Span<const uint8_t> bytes, size_t elements) {
  std::vector<float> values(elements);
  CHECK_OK(codec.Decode(bytes, absl::MakeSpan(values)));
  return values;
}

}  // namespace

Swarm::Swarm(const SwarmSettings& given)
    : settings(given),
      grid(given.elements, given.chunk_elements, given.parts),
      codec(FindCodec(given.codec).value()),
      means(given.upper_codec.empty()
                ? WireCodec{codec, given.zstd}
                : WireCodec{FindCodec(given.upper_codec).value(), given.upper_zstd}),
      world(given.seed, given.sim) {}

Swarm::~Swarm() {
  // The nodes refer to the peers' records.
  for (const auto& [name, peer] : peers) world.Kill(name);
}

Swarm::Peer& Swarm::Add(const std::string& name, bool contributes, const std::string& owned) {
  Peer& peer = *(peers[name] = std::make_unique<Peer>());
  peer.name = name;
  peer.owned = owned;
  if (contributes) {
    for (uint64_t i = 0; i < settings.elements; ++i) {
      peer.values.push_back(static_cast<float>(world.random().Unit() - 0.5) * 0.01f);
    }
    peer.contribution = std::make_shared<const Contribution>(
        EncodeContribution(grid, *codec,
                           {settings.stochastic && codec->has_stochastic_rounding(), peers.size()},
                           peer.values, owned)
            .value());
  }
  world.AddProcess(name, [this, &peer](Env env) {
    auto node = std::make_shared<Node>(env);
    node->server = std::make_unique<ExchangeServer>(env, kRun, settings.failure_timeout);
    node->inputs = std::make_unique<InputsServer>(
        env.executor,
        [raw = node.get()](const v1::InputsRequest& request) -> absl::StatusOr<std::vector<Frame>> {
          return raw->exchange->Inputs(request);
        });
    auto listener = env.transport.Listen(
        Address(peer.name),
        [raw = node.get()](const std::string& method, std::unique_ptr<Call> call) {
          if (method == kInputsMethod) return raw->inputs->Accept(std::move(call));
          EXPECT_EQ(method, kExchangeMethod);
          raw->server->Accept(std::move(call));
        });
    node->listener = std::move(listener).value();
    peer.node = node.get();
    return node;
  });
  return peer;
}

v1::Plan Swarm::MakePlan(const std::vector<std::string>& contributors,
                         const std::vector<std::string>& reducers) const {
  v1::Plan plan;
  plan.set_version(7);
  plan.set_epoch(3);
  plan.set_revision(1);
  plan.set_parameters(grid.elements());
  float weight = 0;
  for (const std::string& name : contributors) {
    v1::PlanMember* member = plan.add_contributors();
    member->set_peer(name);
    member->set_address(Address(name));
    member->set_weight_bits(absl::bit_cast<uint32_t>(weight += 1));
    const auto known = peers.find(name);
    if (known != peers.end() && known->second->contribution != nullptr) {
      member->set_contribution_root(ToBytes(known->second->contribution->root));
      const double norm = WholeNorms(known->second->contribution->norms).squared_norm;
      member->set_squared_norm_bits(absl::bit_cast<uint64_t>(norm));
      member->set_owned(known->second->owned);
    }
  }
  uint32_t first = 0;
  for (size_t i = 0; i < reducers.size(); ++i) {
    const uint32_t end = static_cast<uint32_t>(grid.chunks() * (i + 1) / reducers.size());
    v1::Shard* shard = plan.add_shards();
    shard->set_first_chunk(first);
    shard->set_chunks(end - first);
    shard->set_reducer(reducers[i]);
    shard->set_attempt(1);
    const bool known = std::count(contributors.begin(), contributors.end(), reducers[i]) != 0;
    if (!known) shard->set_address(Address(reducers[i]));
    first = end;
  }
  return plan;
}

v1::Plan Swarm::Revise(const v1::Plan& plan, const std::string& lost, const std::string& heir) {
  v1::Plan next = plan;
  next.set_revision(plan.revision() + 1);
  next.add_lost(lost);
  for (v1::Shard& shard : *next.mutable_shards()) {
    if (shard.reducer() != lost) continue;
    shard.set_reducer(heir);
    shard.set_address(Address(heir));
    shard.set_attempt(shard.attempt() + 1);
  }
  return next;
}

v1::Plan Swarm::Hold(const v1::Plan& plan, const std::string& lost, const std::string& holder) {
  v1::Plan next = plan;
  next.set_revision(plan.revision() + 1);
  next.add_lost(lost);
  for (v1::Shard& shard : *next.mutable_shards()) {
    const std::string& server = shard.holder().empty() ? shard.reducer() : shard.holder();
    if (server != lost) continue;
    shard.set_holder(holder);
    shard.clear_relays();
  }
  return next;
}

std::string Swarm::Bitmap(const v1::Plan& plan, const std::vector<std::string>& members) {
  std::string bitmap(static_cast<size_t>(plan.contributors_size() + 7) / 8, '\0');
  for (int i = 0; i < plan.contributors_size(); ++i) {
    if (std::count(members.begin(), members.end(), plan.contributors(i).peer()) == 0) continue;
    char& byte = bitmap[static_cast<size_t>(i) / 8];
    byte = static_cast<char>(static_cast<uint8_t>(byte) | (1u << (i % 8)));
  }
  return bitmap;
}

void Swarm::AddRelay(v1::Plan* plan, int shard, const std::string& relay,
                     const std::vector<std::string>& members) {
  v1::Relay* added = plan->mutable_shards(shard)->add_relays();
  added->set_peer(relay);
  added->set_members(Bitmap(*plan, members));
}

void Swarm::Sign(v1::Plan* plan, const std::string& peer, const std::string& named,
                 const std::string& signer) {
  const auto key_of = [](const std::string& name) {
    return SigningKey::FromSeed(ToBytes(Sha256(BytesOf(name)))).value();
  };
  for (v1::PlanMember& member : *plan->mutable_contributors()) {
    if (member.peer() != peer) continue;
    v1::Ready ready;
    ready.set_version(plan->version());
    ready.set_contribution_root(member.contribution_root());
    SignContribution(key_of(signer), kRun, peer, &ready);
    member.set_signing_key(key_of(named).public_key());
    member.set_signature(ready.signature());
  }
}

uint64_t Swarm::Averaged() {
  uint64_t averaged = 0;
  for (const auto& [name, peer] : peers) {
    if (peer->node != nullptr && peer->node->exchange != nullptr) {
      averaged += peer->node->exchange->figures().averaged;
    }
  }
  return averaged;
}

void Swarm::Give(const std::string& name, const v1::Plan& plan) {
  Peer& to = peer(name);
  if (to.node == nullptr) return;
  if (to.node->exchange != nullptr) return to.node->exchange->Update(plan);
  ExchangeSettings exchange;
  exchange.run_id = kRun;
  exchange.self = name;
  exchange.codec = codec;
  exchange.zstd = settings.zstd;
  exchange.upper_codec = means.codec;
  exchange.upper_zstd = means.zstd;
  exchange.stochastic = settings.stochastic;
  exchange.seed = settings.seed;
  exchange.grid = grid;
  exchange.failure_timeout = settings.failure_timeout;
  exchange.send_floor = settings.send_floor;
  exchange.lanes = settings.lanes;
  exchange.rule = settings.rule;
  exchange.traffic = &to.traffic;
  exchange.arrivals = &to.arrivals;
  to.arrivals.Begin(to.node->env.executor.Now());
  Exchange::Events events;
  events.on_complete = [&to](ExchangeOutcome outcome) {
    const uint32_t revision = outcome.revision;
    EXPECT_TRUE(to.outcomes.emplace(revision, std::move(outcome)).second);
  };
  events.on_reducer_unreachable = [&to](std::string reducer, absl::Status why) {
    to.unreachable.emplace_back(std::move(reducer), std::move(why));
  };
  events.on_shards_held = [&to](std::vector<std::pair<uint32_t, uint32_t>> shards) {
    to.held.insert(to.held.end(), shards.begin(), shards.end());
  };
  events.on_refused = [&to](const v1::UpdateRefused& refused) { to.refused.push_back(refused); };
  events.on_failed = [&to](absl::Status why) { to.failed.push_back(std::move(why)); };
  to.node->exchange =
      std::make_unique<Exchange>(to.node->env, exchange, plan, to.contribution, std::move(events));
  to.node->server->SetCurrent(to.node->exchange.get());
}

void Swarm::Kill(const std::string& name) {
  peer(name).node = nullptr;
  world.Kill(name);
}

bool Swarm::Complete(const std::vector<std::string>& names, uint32_t revision) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return peer(name).outcomes.count(revision) != 0;
  });
}

void Swarm::CheckOutcomes(const std::vector<std::string>& names, const v1::Plan& plan,
                          const std::vector<std::string>& whole) {
  const ExchangeOutcome& first = peer(names[0]).outcomes.at(plan.revision());
  for (const std::string& name : names) {
    const ExchangeOutcome& other = peer(name).outcomes.at(plan.revision());
    ASSERT_EQ(other.payload.str(), first.payload.str()) << name;
    ASSERT_EQ(other.payload_digest, TreeDigest(first.payload.span())) << name;
    ASSERT_EQ(other.squared_mean, first.squared_mean) << name;
    ASSERT_EQ(other.records.DebugString(), first.records.DebugString()) << name;
  }
  const std::vector<SharedBytes> chunks = SplitPayload(grid, *means.codec, first.payload).value();
  double squared_mean = 0;
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    ASSERT_NO_FATAL_FAILURE(CheckChunk(first, plan, c, chunks[c], whole));
    for (const float value : Decoded(*means.codec, chunks[c].span(), grid.Elements(c))) {
      squared_mean += double{value} * double{value};
    }
  }
  // Taken from codes, it lacks the rounding of each value to fp32.
  const double apart = means.codec->has_squared_norm() ? 0x1p-23 : 1e-12;
  ASSERT_NEAR(first.squared_mean, squared_mean, apart * squared_mean);
  const size_t contributors = static_cast<size_t>(plan.contributors_size());
  // No coordinator plans an empty shard; some tests do.
  const bool sound = std::none_of(plan.shards().begin(), plan.shards().end(),
                                  [](const v1::Shard& shard) { return shard.chunks() == 0; });
  ASSERT_EQ(CheckMeanRecords(first.records, grid, contributors).ok(), sound);
  for (int i = 0; i < first.records.shards_size(); ++i) {
    ASSERT_EQ(first.records.shards(i).reducer(), plan.shards(i).reducer());
  }
}

// The oracle: pieces are the partial means that the outcome names and the single chunks of all
// other contributors, in the order of their lowest contributor.
void Swarm::CheckChunk(const ExchangeOutcome& outcome, const v1::Plan& plan, uint32_t chunk,
                       const SharedBytes& bytes, const std::vector<std::string>& whole) {
  const Sets sets = SetsOf(outcome, chunk);
  const size_t elements = grid.Elements(chunk);
  const auto single = [&](size_t i) {
    const v1::PlanMember& member = plan.contributors(static_cast<int>(i));
    const SharedBytes& own = peer(member.peer()).contribution->chunks[chunk];
    return WeightedPiece{i, absl::bit_cast<float>(member.weight_bits()),
                         Decoded(*codec, own.span(), elements),
                         member.scale_bits() == 0 ? 1 : absl::bit_cast<float>(member.scale_bits())};
  };
  const ChunkForm form = {means.codec, means.zstd,
                          settings.stochastic && means.codec->has_stochastic_rounding(),
                          settings.seed};
  std::vector<uint64_t> parts;
  for (const v1::PlanMember& member : plan.contributors()) parts.push_back(PeerPart(member.peer()));
  std::vector<WeightedPiece> pieces;
  std::vector<int> times(static_cast<size_t>(plan.contributors_size()), 0);
  const auto covers = [&](const std::string& name) {
    const uint32_t part = grid.Part(chunk);
    return part == 0 || Bit(peer(name).owned, part - 1);
  };
  for (const std::string& partial : sets.partials) {
    std::vector<WeightedPiece> members;
    for (size_t i = 0; i < times.size(); ++i) {
      if (!Bit(partial, i)) continue;
      members.push_back(single(i));
      ++times[i];
      ASSERT_TRUE(Bit(sets.contributors, i)) << "chunk " << chunk;
    }
    ASSERT_FALSE(members.empty());
    WeightedPiece piece{members[0].lowest, 0, {}};
    const std::vector<float> mean = MeanOf(members, &piece.weight);
    const Rounding rounding = MeanRounding(form, {plan.version(), chunk, true, parts}, partial);
    piece.values = Decoded(*means.codec, EncodedMean(*means.codec, rounding, mean), elements);
    pieces.push_back(std::move(piece));
  }
  for (size_t i = 0; i < times.size(); ++i) {
    ASSERT_LE(times[i], 1) << "chunk " << chunk << " counts a contributor twice";
    const std::string& name = plan.contributors(static_cast<int>(i)).peer();
    if (!Bit(sets.contributors, i)) {
      ASSERT_TRUE(std::count(whole.begin(), whole.end(), name) == 0 || !covers(name))
          << name << " is missing in chunk " << chunk;
      continue;
    }
    ASSERT_TRUE(covers(name)) << name << " has not trained chunk " << chunk;
    if (times[i] == 0) pieces.push_back(single(i));
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const WeightedPiece& a, const WeightedPiece& b) { return a.lowest < b.lowest; });
  float total = 0;
  if (pieces.empty()) {
    ASSERT_NE(grid.Part(chunk), 0u) << "chunk " << chunk << " is of nobody";
    std::vector<uint8_t> zeros(means.codec->MaxEncodedBytes(elements));
    zeros.resize(
        means.codec->Encode(std::vector<float>(elements, 0.0f), absl::MakeSpan(zeros)).value());
    ASSERT_EQ(bytes.span(), absl::MakeConstSpan(zeros)) << "chunk " << chunk;
    return;
  }
  const Rounding rounding =
      MeanRounding(form, {plan.version(), chunk, false, parts}, sets.contributors);
  const std::vector<uint8_t> expected = EncodedMean(*means.codec, rounding, MeanOf(pieces, &total));
  ASSERT_EQ(bytes.span(), absl::MakeConstSpan(expected)) << "chunk " << chunk;
}

}  // namespace atolld
