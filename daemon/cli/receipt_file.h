// The file form of a receipt: JSON with the digests, the key and the signature in hexadecimal, so
// that it can be mailed, printed, and checked by other programs. docs/protocol.md gives the layout.
// Pure. May be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/admin.pb.h"

namespace atolld {

nlohmann::ordered_json ReceiptJson(const v1::Receipt& receipt);
// Returns the receipt's contents in words.
std::vector<std::string> ReceiptText(const v1::Receipt& receipt);

// Parses the JSON of a receipt. Does not check the signature. Fails with INVALID_ARGUMENT if the
// text is not a receipt; the message says where.
absl::StatusOr<v1::Receipt> ParseReceipt(const std::string& text);

}  // namespace atolld
