// Auditor: recomputes means of others from the inputs that their reducers keep.
//
// It fetches a chunk's inputs from its reducer, and behind a relay's partial mean the relay's,
// holds each contributor's chunk against its leaf and the leaves against the root that the plan
// names, averages them as the reducer should have, and compares with the mean that was voted for.
// What it is given it never believes: a partial mean is recomputed too. Loop thread; hashing and
// averaging run on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/mean_table.h"

namespace atolld {

// Averages pieces of one chunk as its reducer, or as a relay, must. Any thread.
using ChunkReduction =
    std::function<absl::Status(uint32_t chunk, bool partial, const std::vector<Piece>&, Reduced*)>;

class Auditor {
 public:
  struct Basis {
    ExchangePlan plan;
    ChunkForm updates;
    ChunkForm means;
    ChunkReduction reduce;
  };

  // `means`: of the chunks that are ordered, as this peer has voted for them. `done` is called
  // once, with a verdict for each, by the order's deadline.
  Auditor(Env env, const ExchangeSettings& settings, Basis basis, v1::Audit order,
          std::map<uint32_t, ChunkMean> means, std::function<void(v1::AuditReport)> done);
  ~Auditor();

 private:
  struct Fetch {
    std::string server;
    std::vector<uint32_t> chunks;
    std::unique_ptr<Call> call;
  };
  // What a server gave of a chunk.
  struct Given {
    std::vector<Piece> pieces;
    std::string error;
  };

  void Ask(const std::string& server, const std::vector<uint32_t>& chunks);
  void OnPart(uint64_t number, Frame frame);
  absl::Status Take(const Fetch& fetch, const Frame& frame);
  absl::Status TakeLeaves(uint32_t contributor, const std::string& leaves);
  void OnClosed(uint64_t number, const absl::Status& why);
  void AskRelays(const Fetch& fetch);
  void Judge();
  void Tell();

  const Env env_;
  const ExchangeSettings& settings_;
  const std::shared_ptr<const Basis> basis_;
  const v1::Audit order_;
  const std::shared_ptr<const std::map<uint32_t, ChunkMean>> means_;
  const std::function<void(v1::AuditReport)> done_;

  uint64_t fetches_begun_ = 0;
  std::map<uint64_t, Fetch> fetches_;
  std::set<std::pair<std::string, uint32_t>> asked_;        // server, chunk
  std::map<std::string, std::set<uint32_t>> queued_;        // by server: chunks for its next call
  std::map<std::string, std::map<uint32_t, Given>> given_;  // by server and chunk
  std::map<uint32_t, std::string> leaves_;                  // by contributor
  bool judging_ = false;
  bool told_ = false;
  v1::AuditReport report_;
  CallbackGuard guard_;
};

}  // namespace atolld
