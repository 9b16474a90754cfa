// What a machine that joins asks of a coordinator. Blocking, any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/transport/admin_client.h"

namespace atolld {

// Enrols with the token's credentials (access.identity, role join): the answer holds the
// certificate for the key of `signing_request` (DER). A coordinator that is away, or whose answer
// was lost, is asked again for `patience`: the same key may always ask again. UNAVAILABLE: none
// answered. PERMISSION_DENIED: what the coordinator says is wrong with the token.
absl::StatusOr<v1::EnrolResponse> Enrol(const CoordinatorAccess& access,
                                        const std::string& signing_request,
                                        absl::Duration patience);

}  // namespace atolld
