// The ledger of a run: who takes part, what each has given, and who did and is gone; as a table for
// people and as JSON for programs.
//
// What has been given comes from the signed headers (v1::Account), so it survives restarts and
// departures; what a peer does now comes from its heartbeats. Pure functions, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

struct LedgerRow {
  v1::PeerStatus peer;  // of one that is gone and forgotten: its name, and state "gone"
  v1::Account account;  // zeros: nothing so far, or nobody tells
};

// By what the rows can be sorted: "id" upwards, all others the greatest first.
std::vector<std::string> LedgerOrders();

// The peers that the run lists; with `all` also those that contributed and are no longer listed.
// `order` is one of LedgerOrders().
std::vector<LedgerRow> LedgerOf(const v1::RunStatus& status,
                                const std::vector<v1::Account>& accounts, const std::string& order,
                                bool all);

nlohmann::ordered_json LedgerJson(const std::vector<LedgerRow>& rows);
std::vector<std::string> LedgerText(const std::vector<LedgerRow>& rows);

}  // namespace atolld
