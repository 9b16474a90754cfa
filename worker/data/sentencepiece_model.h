// SentencePiece, loaded when it is first needed.
//
// Debian's library carries a copy of protobuf inside that shows its names: linked into one program
// with the real protobuf, either would call the other's functions and crash. So it is the
// dependency of a module that is opened with names of its own (RTLD_DEEPBIND), and spoken to in C.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/sentencepiece_calls.h"

namespace atolld {

class SentencePieceModel {
 public:
  // INVALID_ARGUMENT: the bytes are no model. NOT_FOUND: the module is not there; says where it
  // was looked for.
  static absl::StatusOr<std::unique_ptr<SentencePieceModel>> Load(const std::string& file);

  ~SentencePieceModel();
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;

  uint32_t vocabulary() const { return calls_.vocabulary(model_); }
  int64_t end_of_text() const { return calls_.end_of_text(model_); }  // below 0: none

  absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) const;
  absl::StatusOr<std::string> Decode(const std::vector<int>& tokens) const;

 private:
  SentencePieceModel(const SentencePieceCalls& calls, void* model) : calls_(calls), model_(model) {}

  const SentencePieceCalls& calls_;
  void* const model_;
};

}  // namespace atolld
