// Swarm: a few peers in the simulated world, each with an exchange, and an oracle for the result on
// which they must agree.
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
  std::string upper_codec;  // the codec of means; if empty, `codec` and its zstd are used
  bool upper_zstd = false;
  bool stochastic = false;
  // The rule of the exchange. The oracle knows only the mean.
  std::optional<AggregationRule> rule = std::nullopt;
  // With experts: the part of each chunk (ChunkGrid). Every peer must then say what it owns.
  std::shared_ptr<const std::vector<uint32_t>> parts = nullptr;
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
    std::string owned;  // with experts: a bitmap of those that it has trained
    std::shared_ptr<const Contribution> contribution;  // if null, the peer only receives
    Node* node = nullptr;                              // null once the peer is dead
    TrafficCount traffic;
    ArrivalLog arrivals;
    std::map<uint32_t, ExchangeOutcome> outcomes;  // by revision
    std::vector<std::pair<std::string, absl::Status>> unreachable;
    std::vector<absl::Status> failed;
    std::vector<v1::UpdateRefused> refused;           // the refusals that it has reported
    std::vector<std::pair<uint32_t, uint32_t>> held;  // the shards that it has reported as held,
                                                      // with their attempts
  };

  explicit Swarm(const SwarmSettings& settings);
  ~Swarm();

  Peer& Add(const std::string& name, bool contributes = true, const std::string& owned = "");
  Peer& peer(const std::string& name) { return *peers.at(name); }
  static std::string Address(const std::string& name) { return name + ":1"; }

  // Makes revision 1 of a plan with these contributors, which have the weights 1, 2, ..., and with
  // shards of about equal size for these reducers.
  v1::Plan MakePlan(const std::vector<std::string>& contributors,
                    const std::vector<std::string>& reducers) const;
  // Makes the next revision, in which `lost` is gone and its shards go to `heir` under the next
  // attempt.
  static v1::Plan Revise(const v1::Plan& plan, const std::string& lost, const std::string& heir);
  // Makes the next revision, in which `lost` is gone and `holder` gives out its shards.
  static v1::Plan Hold(const v1::Plan& plan, const std::string& lost, const std::string& holder);
  // Makes `relay` average for `members`, which include it, in this shard of the plan.
  static void AddRelay(v1::Plan* plan, int shard, const std::string& relay,
                       const std::vector<std::string>& members);
  // Gives `peer` the key of `named` in the plan, and signs its root with the key of `signer`.
  static void Sign(v1::Plan* plan, const std::string& peer, const std::string& named,
                   const std::string& signer);
  static std::string Bitmap(const v1::Plan& plan, const std::vector<std::string>& members);

  // Gives the peer this plan, which is its first one or an update. Does nothing if the peer is
  // dead.
  void Give(const std::string& name, const v1::Plan& plan);
  void Kill(const std::string& name);
  bool Complete(const std::vector<std::string>& names, uint32_t revision);

  // Returns the number of chunks that the living peers have averaged, summed over the peers.
  uint64_t Averaged();

  // Fails the test unless three conditions hold. All these peers have the same outcome for the
  // plan's revision. An independent computation from the contributions and sets that the outcome
  // names gives the same result. All contributors of `whole` are in the mean of every chunk that
  // their updates cover.
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
