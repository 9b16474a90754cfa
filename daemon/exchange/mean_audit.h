// How means are audited: what a reducer or a relay averaged is kept until the entry is committed
// (KeptInputs) and given out (InputsServer), and others recompute the means from it (Auditor).
//
// Loop thread; the Auditor hashes and averages on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/exchange_settings.h"
#include "daemon/exchange/outcome.h"
#include "daemon/exchange/reducer.h"
#include "daemon/exchange/started_call.h"
#include "membership/history/merkle_tree.h"

namespace atolld {

inline constexpr char kInputsMethod[] = "/atolld.v1.Exchange/Inputs";

// Kept are the bytes as they came: of a flat plan n peers keep together, each, one contribution's
// bytes.
class KeptInputs {
 public:
  void Keep(uint32_t chunk, uint32_t attempt, std::vector<Piece> pieces);
  // nullptr: nothing was averaged here under that attempt.
  const std::vector<Piece>* Of(uint32_t chunk, uint32_t attempt) const;
  void Drop(uint32_t chunk);
  // What a contributor has signed; `pages` is null where that is not here.
  struct Proof {
    absl::string_view leaves;
    const MerkleTree* pages = nullptr;
  };
  using ProofOf = absl::FunctionRef<Proof(uint32_t contributor)>;
  // The pieces of the chunks that are asked for, each contributor's own chunk with what proves it.
  // INVALID_ARGUMENT: chunks that are not ascending; NOT_FOUND: of one of them nothing is kept.
  absl::StatusOr<std::vector<Frame>> Answer(const v1::InputsRequest& request,
                                            const ExchangePlan& plan, const ChunkForm& updates,
                                            ProofOf proof_of) const;
  uint64_t bytes() const { return bytes_; }

 private:
  void Append(uint32_t chunk, const ExchangePlan& plan, const ChunkForm& updates, ProofOf proof_of,
              std::vector<Frame>* frames) const;

  struct Entry {
    uint32_t attempt;
    std::vector<Piece> pieces;
  };
  std::map<uint32_t, Entry> entries_;
  uint64_t bytes_ = 0;
};

// Answers calls of the method, eight at once and two of one caller (more are RESOURCE_EXHAUSTED).
// INVALID_ARGUMENT: no request.
class InputsServer {
 public:
  // The frames of an answer, or why there is none.
  using Source = std::function<absl::StatusOr<std::vector<Frame>>(const v1::InputsRequest&)>;

  InputsServer(Executor& executor, Source source);
  ~InputsServer();

  void Accept(std::unique_ptr<Call> call);

 private:
  struct Answer {
    std::unique_ptr<StartedCall> call;
    std::vector<Frame> frames;
    size_t next = 0;
    bool asked = false;
  };
  int AskedBy(const std::optional<Identity>& caller) const;
  void OnRequest(uint64_t number, const Frame& frame);
  void Pump(uint64_t number);

  Executor& executor_;
  const Source source_;

  uint64_t accepted_ = 0;
  std::map<uint64_t, Answer> answers_;
  Refusals refusals_;
  CallbackGuard guard_;
};

// Recomputes means of others from the inputs that their reducers keep.
//
// It fetches a chunk's inputs from its reducer, and behind a relay's partial mean the relay's,
// holds each contributor's chunk against its leaf and the leaf against the root that the plan
// names, averages them as the reducer should have, and compares with the mean that was voted for.
// What it is given it never believes: a partial mean is recomputed too. Of one revision it takes
// any number of orders; each chunk is judged as soon as nobody is waited for who was asked for it.
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
  void AskNext(const std::string& server);
  void Dial(const std::string& server, std::vector<uint32_t> chunks);
  void OnPart(uint64_t number, Frame frame);
  absl::Status TakePart(const Fetch& fetch, const Frame& frame);
  absl::Status CheckSigned(uint32_t contributor);
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
  std::set<uint32_t> signed_;                         // contributors whose root was checked
  CallbackGuard guard_;
};

}  // namespace atolld
