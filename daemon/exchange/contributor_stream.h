// ContributorStream: the dialled side of one (contributor, reducer) pair: own chunks go up, means
// come down.
//
// Every new call begins with an Open that says which results are here, then resends the chunks
// whose results are not: a break costs a repeat, never a hang. At most kMaxUnsentBytes and one
// chunk wait in the call. Without progress for failure_timeout, or when the reducer refuses, the
// owner is told, and dialling goes on. Loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/exchange.pb.h"
#include "daemon/env.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/stream_meter.h"

namespace atolld {

class ContributorStream {
 public:
  class Owner {
   public:
    enum class Fate {
      kWanted,
      kUnwanted,  // here already, or of an attempt that is over
      kEarly,     // of an attempt that has not been announced here
      kBad,       // no honest reducer sends it
    };
    virtual ~Owner() = default;
    virtual v1::ExchangeOpen MakeOpen() = 0;
    virtual bool HasResult(uint32_t chunk) const = 0;
    // The own chunk in the form of the wire; nullptr while the pool makes it, Pump is called then.
    virtual const SharedBytes* WireChunk(uint32_t chunk) = 0;
    virtual Fate Judge(const std::string& reducer, const v1::ResultChunk& result) const = 0;
    virtual void OnResult(const std::string& reducer, const v1::ResultChunk& result,
                          SharedBytes encoded) = 0;
    virtual void OnUnreachable(const std::string& reducer, absl::Status why) = 0;
  };

  struct Chunk {
    uint32_t chunk;
    uint32_t attempt;
  };

  ContributorStream(Env env, const ExchangeSettings& settings, std::string reducer, Owner& owner);
  ~ContributorStream();

  // The reducer's chunks under the newest revision; `contributes` says whether to send them, or to
  // receive alone.
  void Assign(const std::string& address, std::vector<Chunk> chunks, bool contributes);
  void Pump();  // sends what can be sent

 private:
  void Dial();
  void RedialLater();
  void PlanSends();
  void OnFrame(Frame frame);
  void OnResult(v1::ResultChunk result, SharedBytes payload);
  void OnClosed(absl::Status status);
  void Drop();  // the call
  void Unreachable(absl::Status why);
  void Tick();
  bool Needed() const;
  void Next();

  Env env_;
  const ExchangeSettings& settings_;
  const ChunkForm form_;
  const std::string reducer_;
  Owner& owner_;

  std::string address_;
  std::vector<Chunk> chunks_;
  bool contributes_ = false;
  std::unique_ptr<Call> call_;
  uint64_t calls_ = 0;                 // tells callbacks of a former call apart
  std::deque<Chunk> todo_;             // to be sent on this call
  std::map<uint32_t, uint32_t> sent_;  // attempt under which a chunk was sent on this call
  std::optional<std::pair<v1::ResultChunk, SharedBytes>>
      held_;  // an early result; nothing is read meanwhile
  StreamMeter meter_;
  absl::Time last_good_;
  absl::Duration backoff_;
  bool redialling_ = false;
  bool refused_before_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
