#include "daemon/config/party_rules.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "daemon/config/worker_program.h"

namespace atolld {
namespace {

constexpr uint64_t kMostPartyNumber = 1'000'000;  // as config_table.cc has it for `first`

// Checks for keys of [parties] that have no effect without `hosted`.
PartyFault UnhostedFault(const PartiesConfig& parties) {
  const char* key = parties.a_round != 0 ? "a_round"
                    : parties.keep       ? "keep"
                    : parties.first != 1 ? "first"
                                         : nullptr;
  if (key == nullptr) return {};
  return {{{"parties", key}, {"parties", "hosted"}},
          absl::StrCat("[parties] ", key,
                       " is for a peer that hosts parties; set [parties] hosted, or leave it out")};
}

}  // namespace

PartyFault HostedFault(const Config& config, ConfigUse use) {
  const PartiesConfig& parties = config.parties;
  if (parties.hosted == 0) return UnhostedFault(parties);
  if (use != ConfigUse::kPeer && !config.data.is_private) {  // a peer is told by its run
    return {{{"parties", "hosted"}, {"data", "private"}},
            "[parties] hosted needs [data] private = true: a party has data of its own, and a "
            "run's common data is leased to peers"};
  }
  if (use == ConfigUse::kPeer && config.peer.role == kAggregatorRoleName) {
    return {{{"parties", "hosted"}, {"peer", "role"}},
            "[parties] hosted must be 0 with role 'aggregator', which trains nothing"};
  }
  if (config.model.kind == kExternalKind) {
    return {{{"parties", "hosted"}, {"model", "kind"}},
            "[parties] hosted must be 0 with kind 'external': a worker of your own trains one "
            "party; start a peer for each"};
  }
  if (config.model.kind == kHuggingFaceKind) {
    return {{{"parties", "hosted"}, {"model", "kind"}},
            "[parties] hosted must be 0 with kind 'huggingface': atoll-hf-worker trains one "
            "party; start a peer for each"};
  }
  if (parties.a_round > parties.hosted) {
    return {{{"parties", "a_round"}, {"parties", "hosted"}},
            absl::StrCat("[parties] a_round must be at most hosted (", parties.hosted, "), not ",
                         parties.a_round)};
  }
  const uint64_t last = uint64_t{parties.first} + parties.hosted - 1;
  if (last > kMostPartyNumber) {
    return {{{"parties", "first"}, {"parties", "hosted"}},
            absl::StrCat("[parties] first and hosted lead to party ", last, "; the highest is ",
                         kMostPartyNumber)};
  }
  return {};
}

PartyFault ControlFault(const Config& config) {
  const InnerConfig& inner = config.inner;
  if (!inner.control_variates) return {};
  const auto needs = [](const char* section, const char* key, const std::string& what) {
    return PartyFault{{{section, key}, {"inner", "control_variates"}},
                      absl::StrCat("[inner] control_variates needs ", what)};
  };
  if (!config.data.is_private) {
    return needs("data", "private", "[data] private = true: it is for parties whose data differ");
  }
  if (inner.optimizer != "sgd") {
    return needs("inner", "optimizer",
                 "optimizer 'sgd': only there is what a party moved by its rate times the sum of "
                 "its gradients");
  }
  if (inner.schedule != "constant" || inner.warmup_steps != 0) {
    return needs("inner", inner.schedule != "constant" ? "schedule" : "warmup_steps",
                 "schedule 'constant' and warmup_steps 0: variates are gradients, which updates "
                 "are divided by one rate for");
  }
  if (inner.pace != "fixed") {
    return needs("inner", "pace",
                 "pace 'fixed': all updates are divided by the same number of steps");
  }
  if (inner.epochs != 0 && !config.federation.normalised) {
    return needs("inner", "epochs",
                 "epochs 0, or [federation] normalised: all updates are divided by the same "
                 "number of steps");
  }
  if (config.exchange.aggregation != "mean") {
    return needs("exchange", "aggregation",
                 "aggregation 'mean': the common variate is the mean of the parties' own");
  }
  if (config.exchange.error_feedback) {
    return needs("exchange", "error_feedback",
                 "error_feedback off: with it an entry carries what older updates have lost, and "
                 "the common variate is made of the entry");
  }
  if (config.parties.hosted > 0 && !config.parties.keep) {
    return needs("parties", "keep", "[parties] keep = true: each party keeps a variate of its own");
  }
  return {};
}

PartyFault SlowerFault(const Config& config) {
  if (config.worker.slower == 1 || CanBeSlower(config.model.kind)) return {};
  return {{{"worker", "slower"}, {"model", "kind"}},
          absl::StrCat("[worker] slower must be 1 with kind '", config.model.kind,
                       "': only atoll-worker and the stub can play a slower machine")};
}

}  // namespace atolld
