// What the users of Transport and Call share: addresses to dial, the wire form of frames, wrappers
// of calls.
//
// "PEER@host:port": with certificates, whoever answers and is not this peer is told nothing, and
// the call is UNAVAILABLE with both names. Without certificates nobody can tell, and the name is
// passed over. An address without a name takes whoever serves in the right role.
//
// The wire form of a Frame is the message's bytes, then, if there is a payload, field 15 with it.
// So any protobuf implementation reads and writes the same bytes, while here the payload never
// passes through the protobuf parser. ParseFrame is total: any bytes give a frame or an error, in
// memory of the input's size.
//
// Pure functions without gRPC, any thread; a call's thread is the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"

namespace atolld {

// Whether only processes of this machine can dial it: a loopback or Unix-domain address. A name but
// "localhost" is not looked up.
bool IsLoopback(absl::string_view address);

// Whether it is every address of a machine ("0.0.0.0:7070", "[::]:7070", "*:7070"): to listen on,
// and not to dial.
bool IsWildcard(absl::string_view address);

struct PeerAddress {
  std::string peer;  // empty: whoever is there
  std::string address;
};

std::string FormatPeerAddress(absl::string_view peer, absl::string_view address);
PeerAddress ParsePeerAddress(absl::string_view text);

// -----------------------------------------------------------------------------------------------

// Everything that stands on the wire before the payload's bytes: the message, then the payload's
// tag and length. With an empty payload that is the whole of it.
std::string FrameHead(const Frame& frame);

// Bytes of the whole message on the wire, without gRPC's 5-byte prefix.
size_t FrameBytes(const Frame& frame);

// `wire` is the message, cut anywhere. The payload shares its memory. Field 15 may stand anywhere
// and more than once: the last wins, as protobuf has it. INVALID_ARGUMENT says what is wrong at
// which byte.
absl::StatusOr<Frame> ParseFrame(const ByteParts& wire);

// -----------------------------------------------------------------------------------------------

// A call that passes everything on to the one that it owns; what a wrapper changes it overrides.
// The inner call is destroyed after whatever the wrapper adds. Loop thread.
class ForwardingCall : public Call {
 public:
  explicit ForwardingCall(std::unique_ptr<Call> inner) : inner_(std::move(inner)) {}

  void Start(Events events) override { inner_->Start(std::move(events)); }
  void Read() override { inner_->Read(); }
  void Write(Frame frame) override { inner_->Write(std::move(frame)); }
  size_t unsent_bytes() const override { return inner_->unsent_bytes(); }
  void Finish(absl::Status status) override { inner_->Finish(std::move(status)); }
  uint64_t sent_bytes() const override { return inner_->sent_bytes(); }
  std::string remote() const override { return inner_->remote(); }
  std::optional<Identity> identity() const override { return inner_->identity(); }

 private:
  const std::unique_ptr<Call> inner_;
};

}  // namespace atolld
