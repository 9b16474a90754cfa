// Inputs: what a reducer or a relay averaged, kept until the entry is committed, so that its means
// can be recomputed by others; and the service that gives them out.
//
// Kept are the bytes as they came: of a flat plan n peers keep together, each, one contribution's
// bytes. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/exchange.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/started_call.h"

namespace atolld {

inline constexpr char kInputsMethod[] = "/atolld.v1.Exchange/Inputs";

class KeptInputs {
 public:
  void Keep(uint32_t chunk, uint32_t attempt, std::vector<Piece> pieces);
  // nullptr: nothing was averaged here under that attempt.
  const std::vector<Piece>* Of(uint32_t chunk, uint32_t attempt) const;
  void Drop(uint32_t chunk);
  uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint32_t attempt;
    std::vector<Piece> pieces;
  };
  std::map<uint32_t, Entry> entries_;
  uint64_t bytes_ = 0;
};

// Answers calls of the method, eight at once and two of one caller (more are RESOURCE_EXHAUSTED).
// INVALID_ARGUMENT: no request.
class InputsServer {
 public:
  // The frames of an answer, or why there is none.
  using Source = std::function<absl::StatusOr<std::vector<Frame>>(const v1::InputsRequest&)>;

  InputsServer(Executor& executor, Source source);
  ~InputsServer();

  void Accept(std::unique_ptr<Call> call);

 private:
  struct Answer {
    std::unique_ptr<StartedCall> call;
    std::vector<Frame> frames;
    size_t next = 0;
    bool asked = false;
  };
  int AskedBy(const std::optional<Identity>& caller) const;
  void OnRequest(uint64_t number, const Frame& frame);
  void Pump(uint64_t number);

  Executor& executor_;
  const Source source_;

  uint64_t accepted_ = 0;
  std::map<uint64_t, Answer> answers_;
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld
