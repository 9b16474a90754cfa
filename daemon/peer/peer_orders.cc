// What the coordinator asks of this peer beside the round: to leave, to tell the history, to look
// at its state again.
#include <memory>

#include "absl/strings/str_cat.h"
#include "daemon/peer/header_answer.h"
#include "daemon/peer/peer.h"

namespace atolld {

void Peer::MakeInitialState() {
  if (keeper_.has_state()) {
    if (keeper_.version() == 0) SendInitialState();  // made, but never recorded there
    return;
  }
  if (!worker_) return;
  env_.log.Info("making the initial parameters");
  making_initial_state_ = true;
  v1::DaemonMessage order;
  order.mutable_write_initial_state();
  trainer_.Send(order);
}

void Peer::OnDrain(const std::string& reason) {
  if (draining_) return;  // said again after a Session that broke
  env_.log.Info(absl::StrCat("the operator asks this peer to leave: ", reason));
  Drain();
}

void Peer::OnSendHeaders(const v1::SendHeaders& asked) {
  auto answer = std::make_shared<v1::PeerMessage>();
  if (!keeper_.has_state()) {
    answer->mutable_headers();
    return link_.Send(*answer);
  }
  env_.log.Info(absl::StrCat("the coordinator's store is behind: telling it the headers from ",
                             asked.first_version(), " on"));
  if (asked.genesis()) *answer->mutable_headers()->mutable_genesis() = keeper_.genesis();
  auto status = std::make_shared<absl::Status>();
  env_.executor.Offload(
      [files = &env_.files, dir = config_.peer.dir, first = asked.first_version(),
       last = keeper_.version(), answer,
       status] { *status = ReadHeaders(*files, dir, first, last, answer->mutable_headers()); },
      guard_.Wrap([this, answer, status] {
        // Nothing is as good an answer as any: the coordinator then asks another.
        if (!status->ok()) {
          env_.log.Warning(absl::StrCat("headers for the coordinator: ", status->message()));
        }
        link_.Send(*answer);
      }));
}

void Peer::OnCheckState(const v1::CheckState& asked) {
  if (asked.version() != keeper_.version()) return;
  const absl::StatusOr<Digest> most = DigestFromBytes(asked.state_digest());
  if (most.ok()) return keeper_.Require(*most);
  keeper_.Audit();
}

}  // namespace atolld
