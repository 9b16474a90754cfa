// Exchange::State: what ties the parts of an exchange together: the plan, the books of what is
// averaged here, the streams of both roles, and the table of means that is full when the exchange
// is complete.
//
// Loop thread. Its owner is told of everything by posted tasks, so it may destroy the exchange from
// any of its callbacks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/exchange/assemble.h"
#include "daemon/exchange/auditor.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/contributor_stream.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/inputs.h"
#include "daemon/exchange/mean_table.h"
#include "daemon/exchange/payload_build.h"
#include "daemon/exchange/reducer.h"
#include "daemon/exchange/reducer_stream.h"
#include "daemon/exchange/started_call.h"

namespace atolld {

struct Exchange::State final : ContributorStream::Owner, ReducerStream::Owner {
  State(Env environment, const ExchangeSettings& given,
        std::shared_ptr<const Contribution> contributes, Events told);

  // exchange_state.cc: the plan and the outcome.
  void Adopt(ExchangePlan plan);
  void Update(const v1::Plan& plan);
  void Fail(absl::Status why);
  ExchangeFigures Figures() const;
  void DropStale(const ExchangePlan& next);
  void Store(uint32_t chunk, ChunkMean mean);
  void TellShardsHeld();
  void CompleteIfAllHere();
  void OnAssembled(uint64_t changes, ExchangeOutcome outcome);

  // exchange_up.cc, ContributorStream::Owner: what is dialled.
  v1::ExchangeOpen MakeOpen() override;
  bool HasResult(uint32_t chunk) const override { return table.Has(chunk); }
  absl::string_view Leaves() const override;
  double ReachOfOthers(const ContributorStream& stream) const override;
  bool PrepareContribution(const ContributorStream::Chunk& chunk) override;
  Frame TakeContributionFrame(const ContributorStream::Chunk& chunk) override;
  ContributorStream::Owner::Fate Judge(const std::string& from,
                                       const v1::ResultChunk& result) const override;
  void OnResult(const std::string& from, const v1::ResultChunk& result, MeasuredChunk mean,
                const ByteParts& wire) override;
  std::optional<FreshBytes> ClaimPlace(uint32_t chunk) override { return build.Claim(chunk); }
  void OnUnreachable(const std::string& peer, absl::Status why) override;
  bool Contributes() const;
  void AssignStreams();
  bool CompressOwnChunk(uint32_t chunk);

  // exchange_down.cc, ReducerStream::Owner: what is accepted and averaged.
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened);
  absl::StatusOr<ReducerStream::Owner::Fate> OnContribution(const ReducerStream& stream,
                                                            const v1::ContributionChunk& chunk,
                                                            const SharedBytes& payload) override;
  absl::Status OnLeaves(const ReducerStream& stream, std::string leaves) override;
  ReducerStream::Owner::Delivery PrepareResult(const ReducerStream& stream, uint32_t chunk,
                                               uint32_t attempt) override;
  Frame ResultFrame(uint32_t chunk) const override;
  void OnGone(ReducerStream* stream) override;
  void FeedOwnChunks(std::vector<Reducer::Work>* ready);
  absl::Status CheckHolding(const v1::ExchangeOpen* open) const;
  void ReportLackAsHolder();
  void MarkWhatIsThere(const v1::ExchangeOpen& open, ReducerStream* stream) const;
  void OfferAll(ReducerStream* stream) const;
  void CompressResult(uint32_t chunk);
  void StartWork(std::vector<Reducer::Work> ready);
  void OnReduced(const Reducer::Work& work, const absl::Status& status, Reduced reduced);
  void KeepPartial(const Reducer::Work& work, Reduced reduced);
  void Refuse(uint32_t contributor, uint32_t chunk, const absl::Status& why);
  void CloseStreamsOf(const std::string& contributor, const absl::Status& why);

  // exchange_audit.cc: what was averaged, for others to recompute, and what they averaged.
  void KeepInputs(const Reducer::Work& work, const Reduced& reduced);
  absl::StatusOr<std::vector<Frame>> Inputs(const v1::InputsRequest& request) const;
  void AppendInputs(uint32_t chunk, std::set<uint32_t>* told, std::vector<Frame>* frames) const;
  void Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell);
  ChunkReduction Reduction() const;

  // A relay's mean of its members' chunks: kept until the result is here, so that it is encoded
  // once.
  struct Partial {
    uint32_t attempt;
    SharedBytes wire;
    std::string contributors;
  };

  Env env;
  const ExchangeSettings settings;
  const ChunkForm form;  // of contributions
  const ChunkForm mean_form;
  const std::shared_ptr<const Contribution> contribution;
  const Events events;

  uint64_t version = 0;
  uint64_t epoch = 0;
  bool started = false;
  bool failed = false;
  ExchangePlan plan;
  Reducer reducer;
  uint64_t averaged = 0;
  std::map<uint32_t, Partial> partials;
  std::map<uint32_t, std::string> leaves;  // by contributor; those that make its root
  bool keeps_inputs = false;               // the plan has committed to an audit
  KeptInputs kept;
  MeanTable table;
  PayloadBuild build;  // of the means in the table
  bool telling_held = false;
  std::optional<ExchangeOutcome> outcome;  // of the table as it was after so many changes
  uint64_t outcome_changes = 0;
  bool assembling = false;
  uint32_t told_revision = 0;
  // With zstd alone, compressed forms: of results given out here; of own chunks that are about to
  // be sent.
  std::vector<SharedBytes> result_wire;
  std::vector<SharedBytes> own_wire;
  std::set<uint32_t> compressing_results;
  std::set<uint32_t> compressing;
  using StreamKey = std::pair<std::string, Lane>;              // the other end's id first
  std::map<StreamKey, std::unique_ptr<ContributorStream>> up;  // by who is dialled
  std::map<StreamKey, std::unique_ptr<ReducerStream>> down;    // by who dialled
  Refusals refusals;
  std::unique_ptr<Auditor> auditor;
  CallbackGuard guard;
};

}  // namespace atolld
