// Swarm: a few peers with an exchange each, in the simulated world, and the oracle that says what
// they must agree on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "atoll/v1/membership.pb.h"
#include "compression/wire_codec.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/mean_audit.h"
#include "tests/sim/sim_world.h"

namespace atolld {

inline constexpr char kRun[] = "run";

struct SwarmSettings {
  uint64_t seed = 1;
  uint64_t elements = 4000;
  uint32_t chunk_elements = 256;
  std::string codec = "int8";
  bool zstd = false;
  std::string upper_codec;  // of means; empty: codec, and zstd with it
  bool upper_zstd = false;
  bool stochastic = false;
  std::optional<AggregationRule> rule = std::nullopt;  // of the exchange; the oracle knows the mean
  absl::Duration failure_timeout = absl::Seconds(2);
  SendWindow::Floor send_floor;
  uint32_t lanes = 1;
  SimSettings sim;
};

class Swarm {
 public:
  struct Node {
    explicit Node(Env given) : env(given) {}
    Env env;
    std::unique_ptr<ExchangeServer> server;
    std::unique_ptr<InputsServer> inputs;
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Exchange> exchange;
  };
  struct Peer {
    std::string name;
    std::vector<float> values;
    std::shared_ptr<const Contribution> contribution;  // nullptr: only receives
    Node* node = nullptr;                              // while it lives
    TrafficCount traffic;
    ArrivalLog arrivals;
    std::map<uint32_t, ExchangeOutcome> outcomes;  // by revision
    std::vector<std::pair<std::string, absl::Status>> unreachable;
    std::vector<absl::Status> failed;
    std::vector<v1::UpdateRefused> refused;           // as told
    std::vector<std::pair<uint32_t, uint32_t>> held;  // shards with their attempts, as told
  };

  explicit Swarm(const SwarmSettings& settings);
  ~Swarm();

  Peer& Add(const std::string& name, bool contributes = true);
  Peer& peer(const std::string& name) { return *peers.at(name); }
  static std::string Address(const std::string& name) { return name + ":1"; }

  // Revision 1 for these contributors with weights 1, 2, ...; shards of about equal size for these
  // reducers.
  v1::Plan MakePlan(const std::vector<std::string>& contributors,
                    const std::vector<std::string>& reducers) const;
  // The next revision: `lost` is gone, its shards go to `heir` under attempt + 1.
  static v1::Plan Revise(const v1::Plan& plan, const std::string& lost, const std::string& heir);
  // The next revision: `lost` is gone, and its shards are given out by `holder`.
  static v1::Plan Hold(const v1::Plan& plan, const std::string& lost, const std::string& holder);
  // In this shard of the plan, `relay` averages for `members`, itself one of them.
  static void AddRelay(v1::Plan* plan, int shard, const std::string& relay,
                       const std::vector<std::string>& members);
  // In the plan, `peer` has the key of `named`, and its root is signed with that of `signer`.
  static void Sign(v1::Plan* plan, const std::string& peer, const std::string& named,
                   const std::string& signer);
  static std::string Bitmap(const v1::Plan& plan, const std::vector<std::string>& members);

  // Gives the plan to a peer: its first one, or an update. Nothing if it is dead.
  void Give(const std::string& name, const v1::Plan& plan);
  void Kill(const std::string& name);
  bool Complete(const std::vector<std::string>& names, uint32_t revision);

  // What has been averaged, by peers that live, summed.
  uint64_t Averaged();

  // Fails the test unless all of these have the same outcome for the plan's revision, it is what an
  // independent computation makes of the contributions and of the sets that it names, and all
  // contributors of `whole` are in every chunk's mean.
  void CheckOutcomes(const std::vector<std::string>& names, const v1::Plan& plan,
                     const std::vector<std::string>& whole);

  void CheckChunk(const ExchangeOutcome& outcome, const v1::Plan& plan, uint32_t chunk,
                  const SharedBytes& bytes, const std::vector<std::string>& whole);

  const SwarmSettings settings;
  const ChunkGrid grid;
  const Codec* codec;
  const WireCodec means;
  SimWorld world;
  std::map<std::string, std::unique_ptr<Peer>> peers;
};

}  // namespace atolld
