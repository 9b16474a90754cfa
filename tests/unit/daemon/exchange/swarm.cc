#include "tests/unit/daemon/exchange/swarm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/status_macros.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

bool Bit(const std::string& bitmap, size_t bit) {
  return ((static_cast<uint8_t>(bitmap[bit / 8]) >> (bit % 8)) & 1) != 0;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::string SetOf(const ExchangeOutcome& outcome, uint32_t chunk) {
  for (const v1::ShardRecord& shard : outcome.shards) {
    if (chunk < shard.first_chunk() || chunk >= shard.first_chunk() + shard.chunks()) continue;
    for (const v1::ChunkRecord& exception : shard.exceptions()) {
      if (exception.chunk() == chunk) return exception.contributors();
    }
    return shard.contributors();
  }
  return "";
}

}  // namespace

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

Swarm::Swarm(const SwarmSettings& given)
    : settings(given),
      grid(given.elements, given.chunk_elements),
      codec(FindCodec(given.codec).value()),
      world(given.seed, given.sim) {}

Swarm::~Swarm() {
  // The nodes refer to the peers' records.
  for (const auto& [name, peer] : peers) world.Kill(name);
}

Swarm::Peer& Swarm::Add(const std::string& name, bool contributes) {
  Peer& peer = *(peers[name] = std::make_unique<Peer>());
  peer.name = name;
  if (contributes) {
    for (uint64_t i = 0; i < settings.elements; ++i) {
      peer.values.push_back(static_cast<float>(world.random().Unit() - 0.5) * 0.01f);
    }
    peer.contribution =
        std::make_shared<const Contribution>(EncodeContribution(grid, *codec, peer.values).value());
  }
  world.AddProcess(name, [this, &peer](Env env) {
    auto node = std::make_shared<Node>(env);
    node->server = std::make_unique<ExchangeServer>(env, kRun, settings.failure_timeout);
    auto listener = env.transport.Listen(
        Address(peer.name),
        [raw = node.get()](const std::string& method, std::unique_ptr<Call> call) {
          EXPECT_EQ(method, "/atolld.v1.Exchange/Exchange");
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
    member->set_weight_bits(BitsOf(weight += 1));
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

void Swarm::Give(const std::string& name, const v1::Plan& plan) {
  Peer& to = peer(name);
  if (to.node == nullptr) return;
  if (to.node->exchange != nullptr) return to.node->exchange->Update(plan);
  ExchangeSettings exchange;
  exchange.run_id = kRun;
  exchange.self = name;
  exchange.codec = codec;
  exchange.zstd = settings.zstd;
  exchange.grid = grid;
  exchange.failure_timeout = settings.failure_timeout;
  exchange.traffic = &to.traffic;
  Exchange::Events events;
  events.on_complete = [&to](ExchangeOutcome outcome) {
    const uint32_t revision = outcome.revision;
    EXPECT_TRUE(to.outcomes.emplace(revision, std::move(outcome)).second);
  };
  events.on_reducer_unreachable = [&to](std::string reducer, absl::Status why) {
    to.unreachable.emplace_back(std::move(reducer), std::move(why));
  };
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
    ASSERT_EQ(other.shard_digests, first.shard_digests) << name;
    ASSERT_EQ(other.shards.size(), first.shards.size()) << name;
    for (size_t i = 0; i < first.shards.size(); ++i) {
      ASSERT_EQ(other.shards[i].DebugString(), first.shards[i].DebugString()) << name;
    }
  }
  // The oracle: plain loops over decoded contributions, in the plan's order, by the sets that the
  // outcome names.
  const std::vector<SharedBytes> chunks = SplitPayload(grid, *codec, first.payload).value();
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const std::string set = SetOf(first, c);
    const size_t elements = grid.Elements(c);
    std::vector<float> sum(elements, 0.0f);
    float total = 0;
    for (int i = 0; i < plan.contributors_size(); ++i) {
      const v1::PlanMember& member = plan.contributors(i);
      if (!Bit(set, static_cast<size_t>(i))) {
        ASSERT_EQ(std::count(whole.begin(), whole.end(), member.peer()), 0)
            << member.peer() << " is missing in chunk " << c;
        continue;
      }
      std::vector<float> values(elements);
      CHECK_OK(codec->Decode(peer(member.peer()).contribution->chunks[c].span(),
                             absl::MakeSpan(values)));
      const float weight = FloatOf(member.weight_bits());
      for (size_t k = 0; k < elements; ++k) sum[k] = sum[k] + weight * values[k];
      total = total + weight;
    }
    const float factor = 1.0f / total;
    for (float& value : sum) value = value * factor;
    std::vector<uint8_t> expected(codec->MaxEncodedBytes(elements));
    expected.resize(codec->Encode(sum, absl::MakeSpan(expected)).value());
    ASSERT_EQ(chunks[c].span(), absl::MakeConstSpan(expected)) << "chunk " << c;
  }
  for (size_t i = 0; i < first.shards.size(); ++i) {
    ASSERT_EQ(first.shards[i].reducer(), plan.shards(static_cast<int>(i)).reducer());
    std::string bytes;
    for (uint32_t k = 0; k < first.shards[i].chunks(); ++k) {
      bytes += std::string(chunks[first.shards[i].first_chunk() + k].str());
    }
    ASSERT_EQ(first.shard_digests[i], TreeDigest(SharedBytes(bytes).span()));
  }
}

}  // namespace atolld
