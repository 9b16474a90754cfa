// ExchangeSettings: what every part of an exchange is told about the run and this peer. Constant
// while the exchange lasts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "compression/codec.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/stream_flow.h"
#include "membership/history/payload.h"
#include "membership/planning/arrival_log.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {

inline constexpr char kExchangeMethod[] = "/atolld.v1.Exchange/Exchange";

struct ExchangeSettings {
  std::string run_id;
  std::string self;    // peer id
  const Codec* codec;  // of contributions
  bool zstd;
  const Codec* upper_codec;  // of means, partial ones too
  bool upper_zstd;
  ChunkGrid grid;
  absl::Duration failure_timeout;  // a stream without progress for so long is broken
  TrafficCount* traffic;           // counted into; outlives the exchange
  SendWindow::Floor send_floor;    // of what a stream sends ahead of its means
  ArrivalLog* arrivals = nullptr;  // as traffic; nullptr: nobody asks what came when
  // Means are rounded by keys made of `seed`, where upper_codec can be.
  bool stochastic = false;
  uint64_t seed = 0;  // the run's
  // How updates become one; nothing: the weighted mean. `centre` is for a rule that has one.
  std::optional<AggregationRule> rule = std::nullopt;
  std::shared_ptr<const Centre> centre = nullptr;
  uint32_t lanes = 1;  // streams to each peer that is dialled, 1 to Lane::kMost
};

}  // namespace atolld
