// A piece of text that has been encoded, on disk: its tokens, behind a line that says of what text
// and settings they were made.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "worker/data/mapped_file.h"

namespace atolld {

// What names the work of a piece: 64 hex digits.
std::string PieceKey(absl::string_view settings, absl::Span<const uint8_t> text);

// Writes it durably: it is there whole or not at all.
absl::Status WritePiece(const std::string& path, const std::string& key, const std::string& tokens);

// The file, if it is there and of this key; `tokens` is set to its bytes behind the key.
absl::optional<MappedFile> OpenPiece(const std::string& path, const std::string& key,
                                     absl::Span<const uint8_t>* tokens);

}  // namespace atolld
