// The file form of a receipt: JSON with the digests, the key and the signature in hexadecimal, so
// that it can be mailed, printed, and checked by other programs. docs/protocol.md gives the layout.
// Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/admin.pb.h"

namespace atolld {

// The longest file of a receipt; most have about 600 bytes.
inline constexpr uint64_t kLargestReceipt = uint64_t{64} << 10;

nlohmann::ordered_json ReceiptJson(const v1::Receipt& receipt);
// Returns the receipt's contents in words.
std::vector<std::string> ReceiptText(const v1::Receipt& receipt);

// Parses the JSON of a receipt. Does not check the signature. Fails with INVALID_ARGUMENT if the
// text is not a receipt; the message says where.
absl::StatusOr<v1::Receipt> ParseReceipt(const std::string& text);

// Returns true if the text is a history key as receipts have it, 64 hexadecimal digits.
bool IsHistoryKey(const std::string& text);

}  // namespace atolld
