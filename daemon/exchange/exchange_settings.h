// ExchangeSettings: the facts about the run and this peer that every part of an exchange needs.
// They are constant while the exchange lasts.
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
  std::string self;    // This peer's id.
  const Codec* codec;  // The codec of contributions.
  bool zstd;
  const Codec* upper_codec;  // The codec of means, partial means included.
  bool upper_zstd;
  ChunkGrid grid;
  absl::Duration failure_timeout;  // A stream without progress for this time counts as broken.
  TrafficCount* traffic;           // Counts the traffic; must outlive the exchange.
  SendWindow::Floor send_floor;    // The least amount that a stream may send ahead of its means.
  ArrivalLog* arrivals = nullptr;  // Logs arrivals unless it is nullptr; must outlive the exchange.
  // If true, and if upper_codec supports it, means are rounded stochastically with keys made from
  // `seed`.
  bool stochastic = false;
  uint64_t seed = 0;  // The seed of the run.
  // The rule that combines updates; nullopt means the weighted mean. `centre` is set for a rule
  // that has a centre.
  std::optional<AggregationRule> rule = std::nullopt;
  std::shared_ptr<const Centre> centre = nullptr;
  uint32_t lanes = 1;  // The number of streams to each dialled peer, from 1 to Lane::kMost.
};

}  // namespace atolld
