// Auditor: recomputes means of others from the inputs that their reducers keep.
//
// It fetches a chunk's inputs from its reducer, and behind a relay's partial mean the relay's,
// holds each contributor's chunk against its leaf and the leaves against the root that the plan
// names, averages them as the reducer should have, and compares with the mean that was voted for.
// What it is given it never believes: a partial mean is recomputed too. Of one revision it takes
// any number of orders; each chunk is judged as soon as nobody is waited for who was asked for it.
// Loop thread; hashing and averaging run on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/mean_table.h"

namespace atolld {

// Averages pieces of one chunk as its reducer, or as a relay, must; `out` as for Reduce. Any
// thread.
using ChunkReduction =
    std::function<absl::Status(uint32_t chunk, bool partial, const std::vector<Piece>&,
                               std::optional<FreshBytes> out, Reduced*)>;

class Auditor {
 public:
  struct Basis {
    ExchangePlan plan;
    ChunkForm updates;
    ChunkForm means;
    ChunkReduction reduce;
  };

  // `tell` is called with verdicts as they come.
  Auditor(Env env, const ExchangeSettings& settings, Basis basis,
          std::function<void(v1::AuditReport)> tell);
  ~Auditor();

  // Each chunk that is ordered has its verdict told by the order's deadline, or again if it was
  // known before. `means`: of those chunks, as this peer has voted for them.
  void Take(const v1::Audit& order, std::map<uint32_t, ChunkMean> means);

  // What a server gave of a chunk.
  struct Given {
    bool whole = false;  // nothing more is waited for
    std::vector<Piece> pieces;
    std::string error;
  };
  using Inputs = std::map<std::string, Given>;  // by server

 private:
  struct Fetch {
    std::string server;
    std::vector<uint32_t> chunks;
    std::unique_ptr<Call> call;
  };
  struct Question {
    std::optional<ChunkMean> mean;
    Inputs inputs;  // of all that were asked
    bool judging = false;
    std::optional<v1::ChunkVerdict> verdict;
  };
  using Questions = std::map<uint32_t, Question>;  // by chunk

  void Ask(const std::string& server, const std::set<uint32_t>& chunks);
  void Dial(const std::string& server, std::vector<uint32_t> chunks);
  void OnPart(uint64_t number, Frame frame);
  absl::Status TakePart(const Fetch& fetch, const Frame& frame);
  absl::Status TakeLeaves(uint32_t contributor, const std::string& leaves);
  void OnClosed(uint64_t number, const absl::Status& why);
  void OnDeadline(const std::vector<uint32_t>& chunks);
  void AskRelays(const Fetch& fetch);
  void EndFetch(std::map<uint64_t, Fetch>::iterator fetch);
  void JudgeWhatIsWhole();
  void Tell(const std::vector<v1::ChunkVerdict>& verdicts);
  static v1::ChunkVerdict Judge(const Basis& basis, uint32_t chunk, uint32_t elements,
                                const Question& question);

  const Env env_;
  const ExchangeSettings& settings_;
  const std::shared_ptr<const Basis> basis_;
  const std::function<void(v1::AuditReport)> tell_;

  Questions questions_;
  uint64_t fetches_begun_ = 0;
  std::map<uint64_t, Fetch> fetches_;                 // one a server
  std::map<std::string, std::set<uint32_t>> queued_;  // by server: chunks for its next call
  std::map<uint32_t, std::string> leaves_;            // by contributor
  CallbackGuard guard_;
};

}  // namespace atolld
