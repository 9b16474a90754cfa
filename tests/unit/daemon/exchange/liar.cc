#include "tests/unit/daemon/exchange/liar.h"

#include <utility>

namespace atolld {

void Liar::Open(const v1::Plan& plan, const std::string& name, const std::string& to) {
  OpenWithout(plan, name, to);
  const auto poses_as = swarm_.peers.find(name);
  if (poses_as == swarm_.peers.end() || poses_as->second->contribution == nullptr) return;
  SendLeaves(poses_as->second->contribution->leaves);
}

void Liar::SendLeaves(const std::string& leaves) {
  v1::ToReducer message;
  message.mutable_leaves()->set_leaves(leaves);
  call_->Write(Pack(message));
}

void Liar::OpenWithout(const v1::Plan& plan, const std::string& name, const std::string& to) {
  call_ = swarm_.world.process("liar").env().transport.Dial(Swarm::Address(to), kExchangeMethod,
                                                            absl::InfiniteDuration());
  call_->Start({[this](Frame) {
                  ++results;
                  call_->Read();
                },
                nullptr, [this](absl::Status status) { closed.push_back(std::move(status)); }});
  v1::ToReducer message;
  message.mutable_open()->set_run_id(kRun);
  message.mutable_open()->set_version(plan.version());
  message.mutable_open()->set_epoch(plan.epoch());
  message.mutable_open()->set_contributor(name);
  call_->Write(Pack(message));
  call_->Read();
}

void Liar::Send(uint32_t chunk, uint32_t attempt, SharedBytes payload,
                const std::string& contributors, uint32_t revision) {
  v1::ToReducer message;
  message.mutable_chunk()->set_chunk(chunk);
  message.mutable_chunk()->set_attempt(attempt);
  message.mutable_chunk()->set_contributors(contributors);
  message.mutable_chunk()->set_revision(revision);
  call_->Write(Pack(message, std::move(payload)));
}

SharedBytes WithNanScale(const SharedBytes& chunk) {
  // Wherever the scales lie, this is not a finite number.
  return SharedBytes(std::vector<uint8_t>(chunk.size(), uint8_t{0xff}));
}

}  // namespace atolld
