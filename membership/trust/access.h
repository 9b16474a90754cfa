// Access: which role may call which method. The one table; both ends of every service go by it.
//
// Law: every method of every service in proto/ has a rule (a test walks the services), and what has
// none is served to nobody. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "membership/trust/identity.h"

namespace atolld {

// `method` is the full name, "/atolld.v1.Membership/Session". PERMISSION_DENIED: not with this
// role. UNIMPLEMENTED: no such method.
absl::Status CheckAccess(const Identity& caller, absl::string_view method);

// The methods that have a rule, ascending.
std::vector<std::string> MethodsWithRule();

// Who serves a method's service: kCoordinator, or kPeer for what peers and aggregators serve. A
// dialler demands it of whoever answers.
Role ServedBy(absl::string_view method);

}  // namespace atolld
