// The ledger of a run, as a table for people and as JSON for programs. It lists the peers that take
// part or have left, and the contributions of each.
//
// Contributions come from the signed headers (v1::Account), so they survive restarts and
// departures. A peer's present activity comes from its heartbeats. Pure. May be called from any
// thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

struct LedgerRow {
  // Only the name and the state: "gone" if the run no longer lists the peer, and "not come" if it
  // has an identity and has never connected.
  v1::PeerStatus peer;
  v1::Account account;  // empty, and null in JSON, if there is no contribution or no report
};

// Returns the names of the figures by which rows can be sorted. The order is ascending for "id" and
// descending for all others.
std::vector<std::string> LedgerOrders();

// Returns the peers that the run lists, those that have never come and, if `all` is true, also
// those that have contributed and are no longer listed. `order` is one of LedgerOrders().
std::vector<LedgerRow> LedgerOf(const v1::RunStatus& status,
                                const std::vector<v1::Account>& accounts, const std::string& order,
                                bool all);

nlohmann::ordered_json LedgerJson(const std::vector<LedgerRow>& rows);
std::vector<std::string> LedgerText(const std::vector<LedgerRow>& rows);

}  // namespace atolld
