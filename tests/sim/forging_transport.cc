#include "tests/sim/forging_transport.h"

#include <utility>

#include "atoll/v1/replica.pb.h"
#include "daemon/env/network.h"
#include "daemon/peer/offered_calls.h"
#include "daemon/replica/transfer/transfer.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

void Spoil(v1::EntryHeader* header) {
  std::string& signature = *header->mutable_signature();
  if (!signature.empty()) signature[7] = static_cast<char>(signature[7] ^ 4);
}

class SpoiledEntries final : public ForwardingCall {
 public:
  using ForwardingCall::ForwardingCall;
  void Write(Frame frame) override {
    v1::EntryBlock block;
    if (!Unpack(frame, &block).ok() || !block.has_header()) {
      return ForwardingCall::Write(std::move(frame));
    }
    Spoil(block.mutable_header());
    ForwardingCall::Write(Pack(block, frame.payload));
  }
};

class SpoiledSnapshot final : public ForwardingCall {
 public:
  using ForwardingCall::ForwardingCall;
  void Write(Frame frame) override {
    v1::SnapshotBlock block;
    if (!Unpack(frame, &block).ok() || !block.info().has_header()) {
      return ForwardingCall::Write(std::move(frame));
    }
    Spoil(block.mutable_info()->mutable_header());
    ForwardingCall::Write(Pack(block, frame.payload));
  }
};

std::unique_ptr<Call> Spoiled(std::unique_ptr<Call> call, bool entries, bool snapshot,
                              uint64_t* calls) {
  // Not every second one: who always makes two would be given one kind sound and one spoiled.
  if ((!entries && !snapshot) || SimMix((*calls)++, 0x666f) % 2 != 0) return call;
  if (entries) return std::make_unique<SpoiledEntries>(std::move(call));
  return std::make_unique<SpoiledSnapshot>(std::move(call));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> ForgingTransport::Listen(const std::string& address,
                                                                   Acceptor acceptor) {
  return under_.Listen(address, [acceptor = std::move(acceptor), calls = calls_](
                                    const std::string& method, std::unique_ptr<Call> call) {
    acceptor(method, Spoiled(std::move(call), method == kFetchEntriesMethod,
                             method == kFetchSnapshotMethod, calls.get()));
  });
}

// A peer that cannot be dialled serves over the calls that it makes.
std::unique_ptr<Call> ForgingTransport::Dial(const std::string& address, const std::string& method,
                                             absl::Duration deadline) {
  return Spoiled(under_.Dial(address, method, deadline), method == kGiveEntriesMethod,
                 method == kGiveSnapshotMethod, calls_.get());
}

}  // namespace atolld
