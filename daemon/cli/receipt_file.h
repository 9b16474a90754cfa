// A receipt as a file: JSON whose digests, key and signature are hexadecimal, so that it can be
// mailed, printed, and checked by a program of one's own (docs/protocol.md has the layout).
// Pure functions, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/admin.pb.h"

namespace atolld {

nlohmann::ordered_json ReceiptJson(const v1::Receipt& receipt);
// What it says, in words.
std::vector<std::string> ReceiptText(const v1::Receipt& receipt);

// INVALID_ARGUMENT: it is no such file, and where; the signature is not checked.
absl::StatusOr<v1::Receipt> ParseReceipt(const std::string& text);

}  // namespace atolld
