// The audit of means: the inputs that a reducer or a relay averaged are kept until the entry is
// committed (KeptInputs) and given out (InputsServer), and other peers recompute the means from
// them (Auditor).
//
// The classes are used on the loop thread; the Auditor hashes and averages on the pool.
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

// Keeps the inputs of the means that this peer averaged, as the bytes that were received. In a plan
// without relays, in which all n peers average, each peer keeps about as many bytes as one
// contribution has.
class KeptInputs {
 public:
  void Keep(uint32_t chunk, uint32_t attempt, std::vector<Piece> pieces);
  // Returns nullptr if this peer has averaged nothing of the chunk under that attempt.
  const std::vector<Piece>* Of(uint32_t chunk, uint32_t attempt) const;
  void Drop(uint32_t chunk);
  // The leaves that a contributor has signed; `pages` is null if this peer does not have them.
  struct Proof {
    absl::string_view leaves;
    const MerkleTree* pages = nullptr;
  };
  using ProofOf = absl::FunctionRef<Proof(uint32_t contributor)>;
  // Returns the pieces of the requested chunks; each contributor's own chunk comes with its proof.
  // Fails with INVALID_ARGUMENT if the chunks are not in ascending order, and with NOT_FOUND if
  // nothing is kept for one of them.
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

// Answers calls of kInputsMethod, at most eight at once and at most two of one caller. Further
// calls are refused with RESOURCE_EXHAUSTED, and a call without a valid request with
// INVALID_ARGUMENT.
class InputsServer {
 public:
  // Returns the frames of the answer, or an error with which the call is refused.
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

// Recomputes means of other peers from the inputs that their reducers keep.
//
// It fetches a chunk's inputs from its reducer and, for each partial mean among them, the inputs of
// the relay that made it. It checks each contributor's chunk against its leaf and the leaf against
// the root in the plan, averages the chunks as the reducer should have, and compares the result
// with the mean that was voted for. It trusts no input: partial means are recomputed as well. It
// takes any number of orders of one revision; each chunk is judged as soon as all peers that were
// asked for its inputs have answered.
class Auditor {
 public:
  struct Basis {
    ExchangePlan plan;
    ChunkForm updates;
    ChunkForm means;
    ChunkReduction reduce;
  };

  // `tell` is called with each verdict when it is found.
  Auditor(Env env, const ExchangeSettings& settings, Basis basis,
          std::function<void(v1::AuditReport)> tell);
  ~Auditor();

  // Takes an order. `tell` gets the verdict of each ordered chunk by the order's deadline, also if
  // the verdict was reported before. `means` are the means of those chunks for which this peer has
  // voted.
  void Take(const v1::Audit& order, std::map<uint32_t, ChunkMean> means);

  // A server's answer for a chunk.
  struct Given {
    bool whole = false;  // The answer is complete.
    std::vector<Piece> pieces;
    std::string error;
  };
  using Inputs = std::map<std::string, Given>;  // Keyed by the server.

 private:
  struct Fetch {
    std::string server;
    std::vector<uint32_t> chunks;
    std::unique_ptr<Call> call;
  };
  struct Question {
    std::optional<ChunkMean> mean;
    Inputs inputs;  // The answers of all servers that were asked.
    bool judging = false;
    std::optional<v1::ChunkVerdict> verdict;
  };
  using Questions = std::map<uint32_t, Question>;  // Keyed by the chunk.

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
  std::map<uint64_t, Fetch> fetches_;  // The open calls, one for each server.
  // Maps a server to the chunks for its next call.
  std::map<std::string, std::set<uint32_t>> queued_;
  std::set<uint32_t> signed_;  // The contributors whose signature of the root was checked.
  CallbackGuard guard_;
};

}  // namespace atolld
