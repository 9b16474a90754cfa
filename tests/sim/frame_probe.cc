#include "tests/sim/frame_probe.h"

namespace atolld {
namespace {

class ProbedCall final : public Call {
 public:
  ProbedCall(std::unique_ptr<Call> call, std::string method,
             std::shared_ptr<const FrameProbe::OnWritten> on_written)
      : call_(std::move(call)), method_(std::move(method)), on_written_(std::move(on_written)) {}

  void Start(Events events) override { call_->Start(std::move(events)); }
  void Read() override { call_->Read(); }
  void Write(Frame frame) override {
    (*on_written_)(method_, frame);
    call_->Write(std::move(frame));
  }
  size_t unsent_bytes() const override { return call_->unsent_bytes(); }
  void Finish(absl::Status status) override { call_->Finish(std::move(status)); }
  uint64_t sent_bytes() const override { return call_->sent_bytes(); }
  std::string remote() const override { return call_->remote(); }

 private:
  const std::unique_ptr<Call> call_;
  const std::string method_;
  const std::shared_ptr<const FrameProbe::OnWritten> on_written_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> FrameProbe::Listen(const std::string& address,
                                                             Acceptor acceptor) {
  return transport_.Listen(address, std::move(acceptor));
}

std::unique_ptr<Call> FrameProbe::Dial(const std::string& address, const std::string& method,
                                       absl::Duration deadline) {
  return std::make_unique<ProbedCall>(transport_.Dial(address, method, deadline), method,
                                      on_written_);
}

}  // namespace atolld
