// Exchange::State: what ties the parts of an exchange together: the plan, the reducer's books, the
// streams of both roles, and the table of means that is full when the exchange is complete.
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
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/contributor_stream.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/reducer.h"
#include "daemon/exchange/reducer_stream.h"
#include "daemon/exchange/started_call.h"

namespace atolld {

struct Exchange::State final : ContributorStream::Owner, ReducerStream::Owner {
  State(Env environment, const ExchangeSettings& given,
        std::shared_ptr<const Contribution> contributes, Events told);

  void Adopt(ExchangePlan plan);
  void Update(const v1::Plan& plan);
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call);
  void Fail(absl::Status why);

  // ContributorStream::Owner.
  v1::ExchangeOpen MakeOpen() override;
  bool HasResult(uint32_t chunk) const override { return means[chunk].attempt != 0; }
  const SharedBytes* WireChunk(uint32_t chunk) override;
  ContributorStream::Owner::Fate Judge(const std::string& reducer,
                                       const v1::ResultChunk& result) const override;
  void OnResult(const std::string& reducer, const v1::ResultChunk& result,
                SharedBytes encoded) override;
  void OnUnreachable(const std::string& reducer, absl::Status why) override;

  // ReducerStream::Owner.
  absl::StatusOr<ReducerStream::Owner::Fate> OnContribution(const ReducerStream& stream,
                                                            const v1::ContributionChunk& chunk,
                                                            const SharedBytes& payload) override;
  std::optional<Frame> ResultFrame(uint32_t chunk, uint32_t attempt) const override;
  void OnGone(ReducerStream* stream) override;

  void DropStaleMeans(const ExchangePlan& next);
  void FeedOwnChunks(std::vector<Reducer::Work>* ready);
  void AssignStreams();
  bool Contributes() const;
  void StartWork(std::vector<Reducer::Work> ready);
  void OnReduced(const Reducer::Work& work, const absl::Status& status, Reduced reduced);
  void Refuse(uint32_t contributor, const absl::Status& why);
  void Store(uint32_t chunk, ChunkMean mean);
  void MarkWhatIsThere(const v1::ExchangeOpen& open, ReducerStream* stream) const;
  void CompleteIfAllHere();

  Env env;
  const ExchangeSettings settings;
  const ChunkForm form;
  const std::shared_ptr<const Contribution> contribution;
  const Events events;

  uint64_t version = 0;
  uint64_t epoch = 0;
  bool started = false;
  bool failed = false;
  ExchangePlan plan;
  Reducer reducer;
  std::vector<ChunkMean> means;
  uint32_t missing = 0;
  std::vector<SharedBytes> result_wire;  // of the chunks reduced here
  std::vector<SharedBytes> own_wire;     // own chunks, once compressed, until their result is here
  std::set<uint32_t> compressing;
  uint32_t assembling = 0;  // revision whose outcome is being made or was told
  std::map<std::string, std::unique_ptr<ContributorStream>> up;  // by reducer
  std::map<std::string, std::unique_ptr<ReducerStream>> down;    // by contributor
  Refusals refusals;
  CallbackGuard guard;
};

}  // namespace atolld
