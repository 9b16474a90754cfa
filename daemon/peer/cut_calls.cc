#include "daemon/peer/cut_calls.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace atolld {

// Frames pass through it untouched.
class CutCalls::CutCall final : public Call {
 public:
  CutCall(Executor& executor, std::shared_ptr<Live> live, const std::string& peer,
          std::unique_ptr<Call> inner)
      : executor_(executor),
        live_(std::move(live)),
        place_(live_->emplace(peer, this)),
        remote_(inner->remote()),
        identity_(inner->identity()),
        inner_(std::move(inner)) {}
  ~CutCall() override { live_->erase(place_); }

  void Start(Events events) override {
    const auto on_closed =
        std::make_shared<std::function<void(absl::Status)>>(std::move(events.on_closed));
    events.on_closed = [on_closed](absl::Status status) {
      // Whoever is told may destroy this call, and with it the owner of the function.
      if (const auto told = std::exchange(*on_closed, nullptr)) told(std::move(status));
    };
    on_closed_ = on_closed;
    if (inner_ != nullptr) inner_->Start(std::move(events));
  }
  void Read() override {
    if (inner_ != nullptr) inner_->Read();
  }
  void Write(Frame frame) override {
    if (inner_ != nullptr) inner_->Write(std::move(frame));
  }
  size_t unsent_bytes() const override { return inner_ == nullptr ? 0 : inner_->unsent_bytes(); }
  void Finish(absl::Status status) override {
    if (inner_ != nullptr) inner_->Finish(std::move(status));
  }
  uint64_t sent_bytes() const override { return inner_ == nullptr ? sent_ : inner_->sent_bytes(); }
  std::string remote() const override { return remote_; }
  std::optional<Identity> identity() const override { return identity_; }

  // False: it was cut before.
  bool Cut(const absl::Status& why) {
    if (inner_ == nullptr) return false;
    sent_ = inner_->sent_bytes();
    inner_.reset();
    executor_.Post(guard_.Wrap([told = on_closed_, why] {
      if (told == nullptr) return;
      if (const auto function = std::exchange(*told, nullptr)) function(why);
    }));
    return true;
  }

 private:
  Executor& executor_;
  const std::shared_ptr<Live> live_;
  const Live::iterator place_;
  const std::string remote_;
  const std::optional<Identity> identity_;
  std::unique_ptr<Call> inner_;  // null once cut
  std::shared_ptr<std::function<void(absl::Status)>> on_closed_;
  uint64_t sent_ = 0;
  CallbackGuard guard_;
};

std::unique_ptr<Call> CutCalls::Wrap(const std::string& peer, std::unique_ptr<Call> call) {
  return std::make_unique<CutCall>(executor_, live_, peer, std::move(call));
}

size_t CutCalls::Cut(const std::string& peer, const absl::Status& why) {
  const auto [begin, end] = live_->equal_range(peer);
  size_t cut = 0;
  for (auto it = begin; it != end; ++it) cut += it->second->Cut(why) ? 1 : 0;
  return cut;
}

}  // namespace atolld
