#include "daemon/coordinator/outbox.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"

namespace atolld {
namespace {

// A full disk is mended by a person; once a second is soon enough for them.
constexpr absl::Duration kRetryFullDisk = absl::Seconds(1);

}  // namespace

Outbox::Outbox(Env env, std::shared_ptr<Store> store, Deliver deliver)
    : env_(env), store_(std::move(store)), deliver_(std::move(deliver)), queue_(env.executor) {}

void Outbox::Push(RunOutput output, Task done) {
  if (Planted(PlantedBug::kAnnounceBeforeDurable)) {
    deliver_(output);
    output.sends.clear();
  }
  const bool durable = output.update.empty();
  items_.push_back({std::move(output), std::move(done), durable});
  Pump();
}

void Outbox::Pump() {
  if (pumping_) return;  // a delivery may push; the loop below takes it in its turn
  pumping_ = true;
  while (!items_.empty() && !storing_) {
    if (!items_.front().durable) {
      Persist();
      break;
    }
    const Item item = std::move(items_.front());
    items_.pop_front();
    deliver_(item.output);
    if (item.done) item.done();
  }
  pumping_ = false;
}

void Outbox::Persist() {
  storing_ = true;
  // Shared, since the job may outlive this object.
  auto update = std::make_shared<const RunUpdate>(items_.front().output.update);
  auto status = std::make_shared<absl::Status>();
  queue_.Run([store = store_, update, status] { *status = store->Apply(*update); },
             guard_.Wrap([this, status] { OnPersisted(*status); }));
}

void Outbox::OnPersisted(const absl::Status& status) {
  if (status.ok()) {
    stalled_.clear();
    storing_ = false;
    items_.front().durable = true;
    Pump();
    return;
  }
  if (absl::IsResourceExhausted(status)) {
    if (stalled_.empty()) env_.log.Error(absl::StrCat("the run stands still: ", status.message()));
    stalled_ = std::string(status.message());
    env_.executor.RunAfter(kRetryFullDisk, guard_.Wrap([this] { Persist(); }));
    return;
  }
  env_.log.Error(absl::StrCat("the store failed, and nothing can be promised any longer: ",
                              status.ToString()));
  std::abort();
}

}  // namespace atolld
