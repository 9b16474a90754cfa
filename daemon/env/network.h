// Code that several users of Transport and Call share: the parsing of addresses, the wire form of
// frames, and a base class for wrappers of calls.
//
// "PEER@host:port" names the peer to reach. With certificates, nothing is sent to any other server,
// and the call fails with UNAVAILABLE; the message names both peers. Without certificates the name
// cannot be checked and is ignored. An address without a peer's name accepts any server of the
// right role.
//
// The wire form of a Frame is the message's bytes followed, if there is a payload, by field 15 with
// the payload. Any protobuf implementation reads and writes the same bytes, but Atoll does not pass
// the payload through its protobuf parser. ParseFrame gives a frame or an error for any bytes, with
// memory proportional to the input.
//
// The functions are pure and may be called from any thread; calls are used on the loop thread.
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

// Returns true if only processes of this machine can dial the address, which is then a loopback or
// Unix-domain address. Looks up no name; only "localhost" is known.
bool IsLoopback(absl::string_view address);

// Returns true if the address means every address of a machine ("0.0.0.0:7070", "[::]:7070",
// "*:7070"), which can be listened on but not dialled.
bool IsWildcard(absl::string_view address);

struct PeerAddress {
  std::string peer;  // The peer's id; empty if any server of the role is accepted.
  std::string address;
};

std::string FormatPeerAddress(absl::string_view peer, absl::string_view address);
PeerAddress ParsePeerAddress(absl::string_view text);

// -----------------------------------------------------------------------------------------------

// Returns the bytes that come before the payload on the wire: the message, then the payload's tag
// and length. If the payload is empty, this is the message alone.
std::string FrameHead(const Frame& frame);

// Returns the size of the whole message on the wire, without gRPC's 5-byte prefix.
size_t FrameBytes(const Frame& frame);

// Parses the message in `wire`, which may be split into parts at any place. The payload shares the
// memory of `wire`. Field 15 may be at any place, and more than once: the last one counts, as in
// protobuf. Fails with INVALID_ARGUMENT if the message is malformed; the error says what is wrong
// at which byte.
absl::StatusOr<Frame> ParseFrame(const ByteParts& wire);

// -----------------------------------------------------------------------------------------------

// A call that passes everything on to the call that it owns. A wrapper derives from it and
// overrides the functions that it changes. The inner call is destroyed after the wrapper's own
// members. Used on the loop thread.
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
